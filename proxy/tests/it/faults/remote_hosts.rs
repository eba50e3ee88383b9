//! Whole model calls over real sockets on both sides: an agent's request comes in, and vLLM hosts that play scripts
//! answer, stall, break, lie and die behind the proxy.

use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{Generation, GenerationFilter, NewRollout, WeightsFrom};

use crate::scripted::{ScriptedReply, ScriptedServer, Step, Vllm, generated, generated_by};
use fulgurite_api::RouteNeeds;
use fulgurite_backends::{RemoteOptions, ReplicaOptions, Replicas, Sampler, VllmSampler};
use fulgurite_proxy::{Proxy, ProxyOptions, SampledModel, SamplingLimits, ServedModel};
use fulgurite_renderers::{Renderer, open_renderer, train_byte_level_tokenizer, write_tokenizer_directory};
use fulgurite_store::{Store, StoreOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

struct Setup {
    url: String,
    store: Store,
    renderer: Arc<dyn Renderer>,
    client: reqwest::Client,
    _directory: tempfile::TempDir,
}

impl Setup {
    /// A proxy in front of these hosts.
    async fn new(hosts: &[&ScriptedServer]) -> Self {
        Self::at(hosts.iter().map(|host| host.url.clone()).collect()).await
    }

    /// A proxy in front of hosts at these addresses, which fails at once where none answers.
    async fn at(urls: Vec<String>) -> Self {
        Self::patient(urls, Duration::ZERO).await
    }

    /// The same, which holds calls for so long.
    async fn patient(urls: Vec<String>, host_patience: Duration) -> Self {
        Self::within(urls, SamplingLimits { host_patience, ..SamplingLimits::default() }).await
    }

    /// The same, with limits of its own.
    async fn within(urls: Vec<String>, sampling_limits: SamplingLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = train_byte_level_tokenizer(["I am 17. Say you are 17."; 3], 280, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        let renderer = open_renderer(directory.path(), "chatml").unwrap();
        let sampler = |host: String| {
            let options = RemoteOptions {
                url: host.clone(),
                model: "tiny".into(),
                vocabulary_size: renderer.tokenizer().vocabulary_size(),
                api_key: None,
                silence_limit: Duration::from_secs(60),
                changeover: fulgurite_backends::Changeover::default(),
            };
            (host, Arc::new(VllmSampler::new(&options).unwrap()) as Arc<dyn Sampler>)
        };
        let options = ReplicaOptions { health_interval: None, ..ReplicaOptions::default() };
        let sampler = Arc::new(Replicas::new(urls.into_iter().map(sampler).collect(), &options));
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let model = ServedModel::Sampled(SampledModel { name: "tiny".into(), renderer: renderer.clone(), sampler });
        let options_of_proxy = ProxyOptions { sampling_limits, ..ProxyOptions::default() };
        let router = fulgurite_proxy::routes(
            Proxy::new(store.clone(), vec![model], options_of_proxy).unwrap(),
            &mut RouteNeeds::default(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, store, renderer, client: reqwest::Client::new(), _directory: directory }
    }

    /// Tokens with their logprobs, -0.5 and so on.
    fn tokens(&self, text: &str) -> Vec<(u32, f64)> {
        let ids = self.renderer.tokenizer().encode_with_specials(text).unwrap();
        ids.into_iter().enumerate().map(|(index, id)| (id, -0.5 - index as f64)).collect()
    }

    /// Asks as a new attempt's agent.
    async fn ask(&self, stream: bool) -> reqwest::Response {
        let started = self.store.rollouts().start(NewRollout::default(), None).await.unwrap();
        let (rollout, attempt) = (started.rollout.rollout_id, started.attempt.attempt_id);
        let url = format!("{}/rollout/{rollout}/attempt/{attempt}/v1/chat/completions", self.url);
        let messages = [json!({ "role": "user", "content": "Say" })];
        let body = json!({ "model": "tiny", "messages": messages, "stream": stream, "max_tokens": 20 });
        self.client.post(url).json(&body).send().await.unwrap()
    }

    async fn ask_whole(&self) -> (u16, Value) {
        let response = self.ask(false).await;
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn generations(&self) -> Vec<Generation> {
        self.store.generations().matching(&GenerationFilter::default()).await.unwrap()
    }

    /// The only generation, once it is there.
    async fn generation(&self) -> Generation {
        loop {
            if let [generation] = self.generations().await.as_slice() {
                return generation.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn ids(tokens: &[(u32, f64)]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}

fn logprobs(tokens: &[(u32, f64)]) -> Vec<f32> {
    tokens.iter().map(|token| token.1 as f32).collect()
}

/// An answer in events of one token each.
fn answer(tokens: &[(u32, f64)], spans: &[(&str, usize, usize)]) -> ScriptedReply {
    let (last, others) = tokens.split_last().unwrap();
    let mut steps: Vec<Step> = others.iter().map(|token| Step::Event(generated(&[*token], None))).collect();
    steps.push(Step::Event(generated_by(&[*last], "stop", spans)));
    steps.extend(Step::done());
    ScriptedReply::Stream(steps)
}

#[tokio::test]
async fn what_a_host_sampled_is_what_the_agent_reads_and_what_is_recorded() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    vllm.play(answer(&tokens, &[("v4", 0, tokens.len())]));
    let (status, reply) = setup.ask_whole().await;
    assert_eq!((status, &reply["choices"][0]["message"]["content"]), (200, &json!("I am 17.")), "{reply}");
    assert_eq!(reply["choices"][0]["token_ids"], json!(ids(&tokens)));
    let recorded = setup.generation().await;
    assert_eq!((recorded.sampled_tokens, recorded.logprobs), (ids(&tokens), Some(logprobs(&tokens))));
    assert_eq!(recorded.weights_versions, [WeightsFrom { version: 4, first_token: 0 }]);
    let sent = host.posts("/inference/v1/generate").pop().unwrap();
    assert_eq!(sent["token_ids"], json!(recorded.prompt_tokens));
}

#[tokio::test]
async fn weights_that_change_in_mid_generation_are_recorded_where_they_do() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    vllm.play(answer(&tokens, &[("7", 0, 2), ("8", 2, tokens.len())]));
    assert_eq!(setup.ask(true).await.text().await.unwrap().matches("[DONE]").count(), 1);
    let swapped = [WeightsFrom { version: 7, first_token: 0 }, WeightsFrom { version: 8, first_token: 2 }];
    assert_eq!(setup.generation().await.weights_versions, swapped);
}

#[tokio::test]
async fn weights_that_are_not_known_of_every_token_are_recorded_as_unknown() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    vllm.play(answer(&tokens, &[("default", 0, 2), ("8", 2, tokens.len())]));
    assert_eq!(setup.ask_whole().await.0, 200);
    assert_eq!(setup.generation().await.weights_versions, []);
}

#[tokio::test]
async fn a_host_that_fails_before_the_first_token_is_passed_over_for_another() {
    // Two hosts play from one script: whichever is asked first fails.
    let vllm = Vllm::new(true, true);
    let hosts = [vllm.serve().await, vllm.serve().await];
    let setup = Setup::new(&hosts.each_ref()).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    for (before, failure) in [
        ScriptedReply::Raw(vec![Step::Reset]),
        ScriptedReply::Json(500, json!({ "error": { "message": "engine is dead" } })),
        ScriptedReply::Stream(vec![Step::Text("<html>".into()), Step::End]),
    ]
    .into_iter()
    .enumerate()
    {
        vllm.play(failure);
        vllm.play(answer(&tokens, &[("1", 0, tokens.len())]));
        let (status, reply) = setup.ask_whole().await;
        assert_eq!((status, &reply["choices"][0]["message"]["content"]), (200, &json!("I am 17.")), "{reply}");
        assert_eq!(setup.generations().await.len(), before + 1, "an answer is recorded once");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_its_tokens_are_recorded_as_far_as_they_came() {
    for stream in [true, false] {
        let vllm = Vllm::new(true, true);
        let host = vllm.serve().await;
        let setup = Setup::new(&[&host]).await;
        let tokens = setup.tokens("I am 17. I am");
        let mut steps: Vec<Step> = tokens.iter().map(|token| Step::Event(generated(&[*token], None))).collect();
        // What a connection has received and not read goes with its reset; so it waits until the agent has read of it.
        let has_read = Arc::new(Notify::new());
        match stream {
            true => steps.extend([Step::Wait(has_read.clone()), Step::Reset]),
            false => steps.push(Step::Close),
        }
        vllm.play(ScriptedReply::Stream(steps));
        let mut response = setup.ask(stream).await;
        let status = response.status().as_u16();
        let mut text = Vec::new();
        while let Some(bytes) = response.chunk().await.unwrap() {
            text.extend_from_slice(&bytes);
            if String::from_utf8_lossy(&text).contains("17") {
                has_read.notify_one();
            }
        }
        let text = String::from_utf8(text).unwrap();
        assert_eq!(status, if stream { 200 } else { 502 }, "{text}");
        let error = text.split("data: ").last().unwrap().trim();
        let error: Value = serde_json::from_str(error).unwrap();
        assert_eq!(
            (&error["error"]["type"], &error["error"]["code"]),
            (&json!("server_error"), &json!("backend_failed"))
        );
        let recorded = setup.generation().await;
        assert_eq!((recorded.sampled_tokens, recorded.logprobs), (ids(&tokens), Some(logprobs(&tokens))));
        assert_eq!((recorded.stop_reason.as_str(), recorded.weights_versions), ("error", vec![]));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_goes_on_from_there_and_its_client_sees_one_answer() {
    for stream in [true, false] {
        let vllm = Vllm::new(true, true);
        let host = vllm.serve().await;
        let setup = Setup::patient(vec![host.url.clone()], Duration::from_secs(60)).await;
        let whole = setup.tokens("I am 17.<|im_end|>");
        let (first, rest) = whole.split_at(3);
        let steps = first.iter().map(|token| Step::Event(generated(&[*token], None)));
        vllm.play(ScriptedReply::Stream(steps.chain([Step::Close]).collect()));
        // It comes back after a while, as one does that is restarted.
        vllm.play(ScriptedReply::Raw(vec![Step::Reset]));
        vllm.play(answer(rest, &[("4", 0, rest.len())]));
        let text = setup.ask(stream).await.text().await.unwrap();
        assert!(!text.contains("error"), "{text}");
        let recorded = setup.generation().await;
        assert_eq!((recorded.sampled_tokens, recorded.logprobs), (ids(&whole), Some(logprobs(&whole))));
        assert_eq!(recorded.stop_reason.as_str(), "stop");
        let sent = host.posts("/inference/v1/generate").pop().unwrap();
        assert_eq!(sent["token_ids"], json!([recorded.prompt_tokens, ids(first)].concat()));
    }
}

/// Each break gives its patience anew, and a pause of a tenth of a second comes after each: all of the answer would take two seconds.
#[tokio::test]
async fn an_answer_that_breaks_off_again_and_again_has_no_more_time_than_one_that_does_not() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let whole = Duration::from_secs(1);
    let limits = SamplingLimits { whole, host_patience: Duration::from_secs(60), ..SamplingLimits::default() };
    let setup = Setup::within(vec![host.url.clone()], limits).await;
    for token in setup.tokens(&"17 ".repeat(20)).into_iter().take(20) {
        vllm.play(ScriptedReply::Stream(vec![Step::Event(generated(&[token], None)), Step::Close]));
    }
    let (status, error) = setup.ask_whole().await;
    assert_eq!((status, &error["error"]["code"]), (504, &json!("sampler_timeout")), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("proxy.call_seconds"), "{error}");
}

#[tokio::test]
async fn calls_are_held_until_a_host_that_went_away_is_back() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::patient(vec![host.url.clone()], Duration::from_secs(60)).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    vllm.play(answer(&tokens, &[("1", 0, tokens.len())]));
    assert_eq!(setup.ask_whole().await.0, 200);
    let address = host.url.strip_prefix("http://").unwrap().to_owned();
    host.die().await;
    let (answered, ()) = tokio::join!(setup.ask_whole(), async {
        // It is gone while the call arrives.
        tokio::time::sleep(Duration::from_millis(300)).await;
        vllm.play(answer(&tokens, &[("1", 0, tokens.len())]));
        let listener = TcpListener::bind(&address).await.unwrap();
        let back = vllm.clone();
        std::mem::forget(ScriptedServer::start_on(listener, move |request| back.answer(request)));
    });
    assert_eq!(answered.0, 200, "{}", answered.1);
    assert_eq!(setup.generations().await.len(), 2);
}

#[tokio::test]
async fn a_lie_ends_the_answer_before_it_is_believed() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am");
    let lie = generated(&[(1_000_000, -0.5)], None);
    vllm.play(ScriptedReply::Stream(vec![Step::Event(generated(&tokens, None)), Step::Event(lie), Step::End]));
    let (status, reply) = setup.ask_whole().await;
    assert_eq!(status, 502, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("there is no token 1000000"), "{reply}");
    assert_eq!(setup.generation().await.sampled_tokens, ids(&tokens));
}

/// A reply with this head and body, after which the connection is closed.
fn raw(head: &str, body: &[u8]) -> ScriptedReply {
    ScriptedReply::Raw(vec![Step::Bytes([head.as_bytes(), b"\r\n\r\n", body].concat()), Step::Close])
}

/// What a host may say instead of the second token of an honest answer, or of the whole answer. Each has its name.
fn lies(honest: &[(u32, f64)]) -> Vec<(&'static str, ScriptedReply)> {
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    let (first, second) = (honest[0], honest[1]);
    let good = || Step::Event(generated(&[first], None));
    let behind = |steps: Vec<Step>| ScriptedReply::Stream(std::iter::once(good()).chain(steps).collect());
    let event = |event: Value| behind(vec![Step::Event(event), Step::End]);
    let changed = |pointer: &str, value: Value| {
        let mut changed = generated(&[second], None);
        *changed.pointer_mut(pointer).unwrap() = value;
        event(changed)
    };
    let text = generated(&[(second.0, -1.25)], None).to_string();
    let written = |logprob: &str| behind(vec![Step::Text(text.replace("-1.25", logprob)), Step::End]);
    let with = |key: &str, value: Value| {
        let mut changed = generated(&[second], None);
        changed[key] = value;
        event(changed)
    };
    let weighed = |spans: &[(&str, usize, usize)]| {
        let mut steps: Vec<Step> =
            honest[1..honest.len() - 1].iter().map(|t| Step::Event(generated(&[*t], None))).collect();
        steps.push(Step::Event(generated_by(&honest[honest.len() - 1..], "stop", spans)));
        behind(steps.into_iter().chain(Step::done()).collect())
    };
    let whole = generated(honest, Some("stop"));
    let (count, stop) = (honest.len(), honest[honest.len() - 1]);
    let logprob = "/choices/0/logprobs/content/0/logprob";
    vec![
        ("no ids", changed("/choices/0/token_ids", Value::Null)),
        ("ids that are no list", changed("/choices/0/token_ids", json!(second.0))),
        ("more ids than logprobs", changed("/choices/0/token_ids", json!([second.0, second.0]))),
        ("more logprobs than ids", changed("/choices/0/token_ids", json!([]))),
        ("an id beyond the vocabulary", event(generated(&[(1_000_000, -0.5)], None))),
        ("an id below 0", changed("/choices/0/token_ids", json!([-1]))),
        ("an id of more than 32 bits", changed("/choices/0/token_ids", json!([(1_u64 << 33) + u64::from(second.0)]))),
        ("half an id", changed("/choices/0/token_ids", json!([0.5]))),
        ("an id in words", changed("/choices/0/token_ids", json!(["token"]))),
        ("another token among the logprobs", changed("/choices/0/logprobs/content/0/token_id", json!(first.0 + 1))),
        ("no logprobs", changed("/choices/0/logprobs", Value::Null)),
        ("an empty list of logprobs", changed("/choices/0/logprobs/content", json!([]))),
        ("logprobs that are no list", changed("/choices/0/logprobs/content", json!({}))),
        ("an unknown logprob", changed(logprob, Value::Null)),
        ("a logprob in words", changed(logprob, json!("-0.5"))),
        ("a positive logprob", event(generated(&[(second.0, 0.5)], None))),
        ("the logprob that stands for none", event(generated(&[(second.0, -9999.0)], None))),
        ("NaN", written("NaN")),
        ("infinity", written("Infinity")),
        ("minus infinity", written("-Infinity")),
        ("a logprob too large for a float", written("-1e999")),
        (
            "an alternative beyond the vocabulary",
            changed("/choices/0/logprobs/content/0/top_logprobs/0/token_id", json!(77_777)),
        ),
        ("a positive alternative", changed("/choices/0/logprobs/content/0/top_logprobs/0/logprob", json!(3.0))),
        ("another prompt", with("prompt_token_ids", json!([1, 2, 3]))),
        ("a stop at no stop token", event(generated(&[second], Some("stop")))),
        ("an aborted answer", event(generated(&[second], Some("abort")))),
        ("a reason that there is not", event(generated(&[second], Some("tired")))),
        ("a reason that is a number", changed("/choices/0/finish_reason", json!(7))),
        ("tokens beyond the stop token", event(generated(&[stop, second], None))),
        ("more tokens than were asked for", event(generated(&[second; 25], None))),
        ("weights of fewer tokens", weighed(&[("1", 0, count - 1)])),
        ("weights of more tokens", weighed(&[("1", 0, count + 1)])),
        ("weights that overlap", weighed(&[("1", 0, 3), ("2", 1, count)])),
        ("weights with a gap", weighed(&[("1", 0, 1), ("2", 2, count)])),
        ("an event that comes twice", {
            let mut steps = vec![good()];
            steps.extend(honest[1..honest.len() - 1].iter().map(|t| Step::Event(generated(&[*t], None))));
            steps.push(Step::Event(generated_by(&[stop], "stop", &[("1", 0, count)])));
            behind(steps.into_iter().chain(Step::done()).collect())
        }),
        ("done before the end", behind(Step::done())),
        ("nothing more", behind(vec![Step::End])),
        ("a closed connection", behind(vec![Step::Close])),
        ("a reset connection", behind(vec![Step::Reset])),
        (
            "half an event",
            behind(vec![Step::Bytes(format!("data: {}", &text[..text.len() / 2]).into_bytes()), Step::End]),
        ),
        ("a page of HTML", behind(vec![Step::Text("<html>502 Bad Gateway</html>".into()), Step::End])),
        ("bytes that are no text", behind(vec![Step::Bytes(b"data: \xff\xfe\x00\n\n".to_vec()), Step::End])),
        ("an error among the events", event(json!({ "error": { "message": "out of memory", "code": 500 } }))),
        ("choices that are no list", event(json!({ "choices": 7 }))),
        ("no choice at all", behind(vec![Step::Event(json!({ "choices": [] })), Step::End])),
        ("lists in lists without end", behind(vec![Step::Text(format!("{{\"x\":{}", "[".repeat(200_000))), Step::End])),
        ("a line of eight megabytes", behind(vec![Step::Bytes(vec![b'x'; 8 << 20]), Step::End])),
        (
            "an error with status 200",
            raw(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 33",
                br#"{"error":{"message":"no engine"}}"#,
            ),
        ),
        (
            "a whole answer in place of events",
            raw(
                &format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}",
                    whole.to_string().len()
                ),
                whole.to_string().as_bytes(),
            ),
        ),
        (
            "another type of content",
            raw("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13", b"<html></html>"),
        ),
        ("gzip that is none", raw(&format!("{STREAM}\r\ncontent-encoding: gzip\r\ncontent-length: 20"), &[0x1f; 20])),
        ("an empty body", raw(&format!("{STREAM}\r\ncontent-length: 0"), b"")),
        ("fewer bytes than its head says", raw(&format!("{STREAM}\r\ncontent-length: 1000"), b"data: {")),
        (
            "a chunk without a length",
            raw(&format!("{STREAM}\r\ntransfer-encoding: chunked"), b"zz\r\nabc\r\n0\r\n\r\n"),
        ),
        ("no HTTP", raw("SSH-2.0-OpenSSH_9.6", b"")),
        ("a status without content", raw("HTTP/1.1 204 No Content", b"")),
        (
            "a way to somewhere else",
            raw("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0", b""),
        ),
    ]
}

/// Whether training may take a generation, as far as its own record says.
fn can_be_trained(generation: &Generation) -> bool {
    generation.stop_reason.as_str() != "error"
        && !generation.client_disconnected
        && generation.defect.is_none()
        && !generation.sampled_tokens.is_empty()
        && generation.logprobs.is_some()
        && !generation.weights_versions.is_empty()
}

#[tokio::test]
async fn no_row_that_can_be_trained_holds_what_a_lying_host_said() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let honest = setup.tokens("I am 17.<|im_end|>");
    assert!(lies(&honest).len() >= 37);
    for stream in [false, true] {
        for (name, lie) in lies(&honest) {
            vllm.play(lie);
            let response = setup.ask(stream).await;
            let status = response.status().as_u16();
            let text = response.text().await.unwrap_or_default();
            assert!(vllm.scripts.lock().unwrap().is_empty(), "{name}: it was not asked: {text}");
            let answered = if stream { text.contains("\"finish_reason\":\"") } else { status == 200 };
            assert!(!answered || name.starts_with("weights"), "{name}: {status} {text}");
        }
    }
    let (ids, logprobs) = (ids(&honest), logprobs(&honest));
    for generation in setup.generations().await {
        assert!(!can_be_trained(&generation), "{generation:?}");
        // What is kept of an answer is what came before the lie.
        let kept = generation.sampled_tokens.len();
        let repeated = kept > 1 && generation.sampled_tokens[1] == ids[0];
        assert!(repeated || ids.starts_with(&generation.sampled_tokens), "{generation:?}");
        assert!(repeated || generation.logprobs.is_none_or(|recorded| recorded == logprobs[..kept]));
    }
    // Whoever tells the truth again is believed.
    vllm.play(answer(&honest, &[("1", 0, honest.len())]));
    assert_eq!(setup.ask_whole().await.0, 200);
    let trained: Vec<Generation> = setup.generations().await.into_iter().filter(can_be_trained).collect();
    assert_eq!(trained.iter().map(|generation| &generation.sampled_tokens).collect::<Vec<_>>(), [&ids]);
}

#[tokio::test]
async fn a_host_that_died_is_an_error_that_may_be_tried_again_and_stores_nothing() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am 17.<|im_end|>");
    vllm.play(answer(&tokens, &[("1", 0, tokens.len())]));
    assert_eq!(setup.ask_whole().await.0, 200);
    host.die().await;
    for stream in [true, false] {
        let response = setup.ask(stream).await;
        assert_eq!((response.status().as_u16(), response.headers()["retry-after"].as_bytes()), (503, &b"1"[..]));
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], "backend_unavailable", "{error}");
    }
    assert_eq!(setup.generations().await.len(), 1);
}

#[tokio::test]
async fn what_the_host_refuses_is_the_agents_to_put_right_and_no_other_host_is_asked() {
    let vllm = Vllm::new(true, true);
    let hosts = [vllm.serve().await, vllm.serve().await];
    let setup = Setup::new(&hosts.each_ref()).await;
    let refusal = json!({ "error": { "message": "no such thing", "code": 400 } });
    for refusal in
        [ScriptedReply::Json(400, refusal.clone()), ScriptedReply::Stream(vec![Step::Event(refusal), Step::End])]
    {
        vllm.play(refusal);
        let (status, error) = setup.ask_whole().await;
        assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")), "{error}");
    }
    assert_eq!(setup.generations().await, []);
}

#[tokio::test]
async fn an_agent_that_leaves_a_stalled_host_ends_its_work_and_is_recorded_so() {
    let vllm = Vllm::new(true, true);
    let host = vllm.serve().await;
    let setup = Setup::new(&[&host]).await;
    let tokens = setup.tokens("I am");
    let (on_disconnect, disconnected) = oneshot::channel();
    vllm.play(ScriptedReply::Stream(vec![Step::Event(generated(&tokens, None)), Step::Hang(on_disconnect)]));
    let mut response = setup.ask(true).await;
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    disconnected.await.unwrap();
    let recorded = setup.generation().await;
    assert_eq!((recorded.sampled_tokens, recorded.client_disconnected), (ids(&tokens), true));
}

#[tokio::test]
async fn a_paused_models_calls_wait_for_a_host_that_is_not_there_yet() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let setup = Setup::at(vec![format!("http://{address}")]).await;
    let model = format!("{}/v1/fulgurite/models/tiny", setup.url);
    setup.client.post(format!("{model}/pause")).send().await.unwrap();
    let call = setup.ask_whole();
    let meanwhile = async {
        loop {
            let state: Value = setup.client.get(&model).send().await.unwrap().json().await.unwrap();
            if state["held"] == json!(1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let vllm = Vllm::new(true, true);
        let tokens = setup.tokens("I am 17.<|im_end|>");
        vllm.play(answer(&tokens, &[("1", 0, tokens.len())]));
        let listener = TcpListener::bind(address).await.unwrap();
        let host = ScriptedServer::start_on(listener, move |request| vllm.answer(request));
        setup.client.post(format!("{model}/resume")).send().await.unwrap();
        host
    };
    tokio::pin!(call, meanwhile);
    let _host = tokio::select! {
        early = &mut call => panic!("it is not held: {early:?}"),
        host = &mut meanwhile => host,
    };
    let (status, reply) = call.await;
    assert_eq!((status, &reply["choices"][0]["message"]["content"]), (200, &json!("I am 17.")), "{reply}");
}
