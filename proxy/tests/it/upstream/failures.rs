//! Calls that are passed on to a server that refuses, breaks, stalls and dies, and requests that are sent again.

use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::StatusCode;

use crate::common::upstreams::{
    KEY, Setup, bytes, chat, chat_answer, chunk, named, serve, serve_proxy, streamed, upstream_model, with_headers,
};
use crate::scripted::{ScriptedReply, ScriptedServer, Step};
use fulgurite_backends::UpstreamDialect;
use fulgurite_proxy::{Proxy, ProxyOptions, SamplingLimits};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

#[tokio::test]
async fn an_error_of_the_upstream_is_passed_on_as_it_is_but_for_its_key() {
    let setup = Setup::new(vec![]).await;
    let (sender, exported) = std::sync::mpsc::channel();
    setup.store.recording().notify_of_calls(false, move |span| sender.send(span).unwrap());
    let (rollout, base) = setup.attempt().await;
    for (status, is_stream) in [(400, false), (401, true), (429, false), (500, true)] {
        let error = json!({ "error": { "message": format!("no: {KEY}"), "code": status, "mood": "bad" } }).to_string();
        let headers = format!("content-type: application/json\r\nretry-after: 3\r\nx-debug: Bearer {KEY}\r\n");
        setup.play(with_headers(status, &headers, &error));
        let body = if is_stream { streamed(chat()) } else { chat() };
        let response = setup.post(&format!("{base}/chat/completions"), &body).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["retry-after"], "3");
        assert!(!response.headers().contains_key("x-debug"));
        assert_eq!(response.text().await.unwrap(), error.replace(KEY, "[key]"));
    }
    assert_eq!(setup.generations().await, []);
    let spans = setup.spans(&rollout).await;
    let statuses: Vec<_> = spans.iter().map(|span| (span.status.status_code, &span.attributes["error.type"])).collect();
    let expected = ["400", "401", "429", "500"].map(|kind| (StatusCode::Error, json!(kind)));
    assert_eq!(statuses, expected.each_ref().map(|(code, kind)| (*code, kind)));
    assert!(spans.iter().all(|span| !json!(span).to_string().contains(KEY)));
    assert_eq!(spans[0].attributes["gen_ai.prompt.0.content"], "Say you are 17.");
    // The same is told of them elsewhere, but for what was said.
    let mut exported: Vec<_> = exported.try_iter().collect();
    setup.store.recording().number_spans(&mut exported).await.unwrap();
    assert_eq!(
        exported.iter().map(|span| (&span.span_id, span.sequence_id)).collect::<Vec<_>>(),
        spans.iter().map(|span| (&span.span_id, span.sequence_id)).collect::<Vec<_>>()
    );
    for span in exported {
        assert_eq!((span.status.status_code, span.status.description), (StatusCode::Error, None));
        assert!(span.attributes.contains_key("error.type") && !span.attributes.contains_key("gen_ai.prompt.0.content"));
    }
}

#[tokio::test]
async fn an_upstream_that_gives_no_answer_is_told_in_the_clients_dialect() {
    let setup = Setup::new(vec![ScriptedReply::Raw(vec![Step::Reset]), ScriptedReply::Raw(vec![Step::Close])]).await;
    let (rollout, base) = setup.attempt().await;
    let response = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await;
    assert_eq!(response.status(), 503);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["code"], "backend_unavailable", "{error}");
    let response = setup.post(&format!("{base}/messages"), &json!({ "model": "claude", "messages": [] })).await;
    assert_eq!(response.status(), 503);
    let error: Value = response.json().await.unwrap();
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("api_error")), "{error}");
    let kinds: Vec<Value> =
        setup.spans(&rollout).await.iter().map(|span| span.attributes["error.type"].clone()).collect();
    assert_eq!(kinds, ["upstream_unavailable", "upstream_unavailable"]);
}

#[tokio::test]
async fn a_whole_answer_that_is_cut_short_is_no_answer() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"id\":";
    let setup = Setup::new(vec![ScriptedReply::Raw(vec![bytes(head), Step::Close])]).await;
    let (rollout, base) = setup.attempt().await;
    let response = setup.post(&format!("{base}/chat/completions"), &chat()).await;
    assert_eq!(response.status(), 502);
    assert_eq!(setup.spans(&rollout).await[0].attributes["error.type"], "upstream_broken");
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_in_its_dialect_and_is_recorded_as_broken() {
    let started = json!({ "type": "message_start", "message": { "id": "msg_1", "content": [] } });
    let block =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "I am" } });
    let created =
        json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress", "output": [] } });
    let item = json!({ "type": "response.output_item.added", "output_index": 0, "item": {
        "type": "message", "content": [{ "type": "output_text", "text": "I am" }],
    } });
    let chunk = format!("data: {}\n\n", chunk(json!({ "content": "I am" }), None));
    for (path, model, came, error_begins) in [
        ("chat/completions", "judge", chunk, "data: {\"error\":{\"message\":\"the answer of the model host"),
        ("messages", "claude", named(&started) + &named(&block), "event: error\ndata: {\"type\":\"error\",\"error\":{"),
        ("responses", "judge", named(&created) + &named(&item), "event: error\ndata: {\"message\":\"the answer of"),
    ] {
        for last in [Step::Close, Step::Reset, Step::End] {
            let cut = bytes(format!("{came}data: {{\"cut"));
            let setup = Setup::new(vec![ScriptedReply::Stream(vec![cut, last])]).await;
            let (rollout, base) = setup.attempt().await;
            let request = json!({ "model": model, "stream": true, "messages": [{ "role": "user", "content": "?" }], "input": "?" });
            let text = setup.post(&format!("{base}/{path}"), &request).await.text().await.unwrap();
            // A reset may overtake what came before it.
            let error = text.strip_prefix(&came).unwrap_or(&text);
            assert!(error.starts_with(error_begins), "{path}: {text}");
            assert!(error.ends_with("\n\n") && error.matches("\n\n").count() == 1, "{path}: {text}");
            if text.starts_with(&came) {
                let generation = setup.generation_when(|_| true).await;
                assert_eq!((generation.stop_reason.as_str(), generation.client_disconnected), ("error", false));
                assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.content"], "I am");
            }
        }
    }
}

#[tokio::test]
async fn an_error_that_the_upstream_tells_in_its_stream_is_passed_on_and_recorded() {
    let error = json!({ "error": { "message": "overloaded", "code": 529 } });
    let stream = format!("data: {}\n\ndata: {error}\n\n", chunk(json!({ "content": "I" }), None));
    let setup = Setup::new(vec![ScriptedReply::Stream(vec![bytes(&stream), Step::End])]).await;
    let text = setup.post(&format!("{}/v1/chat/completions", setup.url), &streamed(chat())).await.text().await.unwrap();
    assert_eq!(text, stream);
    assert_eq!(setup.generation_when(|_| true).await.stop_reason.as_str(), "error");
}

#[tokio::test]
async fn a_key_that_the_upstream_tells_in_its_stream_is_neither_passed_on_nor_recorded() {
    let error = json!({ "error": { "message": format!("Incorrect API key provided: {KEY}"), "code": 401 } });
    let stream = format!("data: {error}\n\n");
    let setup = Setup::new(vec![ScriptedReply::Stream(vec![bytes(&stream), Step::End])]).await;
    let (rollout, base) = setup.attempt().await;
    let text = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await.text().await.unwrap();
    assert_eq!(text, stream.replace(KEY, "[key]"));
    let span = setup.spans(&rollout).await.pop().unwrap();
    assert_eq!(span.status.description.as_deref(), Some("Incorrect API key provided: [key]"));
}

/// Only the limit that is tested ends a call.
const NEVER: Duration = Duration::from_secs(3600);
const AT_ONCE: Duration = Duration::from_millis(20);
const WITHOUT_LIMIT: SamplingLimits =
    SamplingLimits { first_token: NEVER, silence: NEVER, whole: NEVER, host_patience: Duration::ZERO };

/// The base URL of an attempt of that rollout at a proxy that waits for the setup's server no longer than that.
async fn attempt_within(setup: &Setup, sampling_limits: SamplingLimits) -> (String, String) {
    let urls = || vec![setup.server.url.clone()];
    let models = vec![
        upstream_model("judge", "gpt-x", UpstreamDialect::OpenAi, urls()),
        upstream_model("claude", "claude", UpstreamDialect::Anthropic, urls()),
    ];
    let options = ProxyOptions { sampling_limits, ..ProxyOptions::default() };
    let url = serve_proxy(Proxy::new(setup.store.clone(), models, options).unwrap()).await;
    let (rollout, base) = setup.attempt().await;
    (rollout, base.replace(&setup.url, &url))
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_given_up_in_the_clients_dialect() {
    let setup = Setup::new(vec![]).await;
    let of_first = (SamplingLimits { first_token: AT_ONCE, ..WITHOUT_LIMIT }, "the first token", "first_token");
    // An answer in one piece is silent until its end.
    let of_whole = (SamplingLimits { whole: AT_ONCE, ..WITHOUT_LIMIT }, "the end of the answer", "call");
    for ((limits, awaited, key), request) in [(of_first, streamed(chat())), (of_whole, chat())] {
        setup.play(ScriptedReply::Raw(vec![Step::Hang(oneshot::channel().0)]));
        let (rollout, base) = attempt_within(&setup, limits).await;
        let response = setup.post(&format!("{base}/chat/completions"), &request).await;
        assert_eq!(response.status(), 504);
        let expected = json!({ "error": {
            "message": format!("{awaited} did not come within 0.02 seconds (proxy.{key}_seconds)"),
            "type": "server_error", "param": null, "code": "sampler_timeout",
        } });
        assert_eq!(response.json::<Value>().await.unwrap(), expected);
        assert_eq!(setup.spans(&rollout).await[0].attributes["error.type"], "sampler_timeout");
    }
    assert_eq!(setup.generations().await, []);
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_broken_off_and_what_came_is_recorded() {
    let started = json!({ "type": "message_start", "message": { "id": "msg_1", "content": [] } });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "I am" } });
    let came = [started, block, delta].iter().map(named).collect::<String>();
    let (on_disconnect, disconnected) = oneshot::channel();
    let setup = Setup::new(vec![ScriptedReply::Stream(vec![bytes(&came), Step::Hang(on_disconnect)])]).await;
    let (rollout, base) = attempt_within(&setup, SamplingLimits { silence: AT_ONCE, ..WITHOUT_LIMIT }).await;
    let request = json!({ "model": "claude", "stream": true, "max_tokens": 9, "messages": [] });
    let text = setup.post(&format!("{base}/messages"), &request).await.text().await.unwrap();
    let expected = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"the next token did \
                not come within 0.02 seconds (proxy.silence_seconds)\"}";
    assert!(text.strip_prefix(&came).unwrap().starts_with(expected), "{text}");
    disconnected.await.unwrap();
    assert_eq!(setup.generation_when(|_| true).await.stop_reason.as_str(), "error");
    assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.content"], "I am");
}

#[tokio::test]
async fn a_stream_that_goes_on_and_on_has_its_time() {
    let came = Step::Event(chunk(json!({ "content": "I am" }), None));
    let steps = vec![came, Step::Hang(oneshot::channel().0)];
    let setup = Setup::new(vec![ScriptedReply::Stream(steps)]).await;
    let (_, base) = attempt_within(&setup, SamplingLimits { whole: AT_ONCE, ..WITHOUT_LIMIT }).await;
    let text = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await.text().await.unwrap();
    assert!(text.contains("the end of the answer did not come within 0.02 seconds (proxy.call_seconds)"), "{text}");
}

#[tokio::test]
async fn an_answer_that_the_servers_end_cuts_short_says_so_and_is_recorded() {
    let (on_disconnect, disconnected) = oneshot::channel();
    let came = Step::Event(chunk(json!({ "content": "I am" }), None));
    let setup = Setup::new(vec![ScriptedReply::Stream(vec![came, Step::Hang(on_disconnect)])]).await;
    let models = vec![upstream_model("judge", "gpt-x", UpstreamDialect::OpenAi, vec![setup.server.url.clone()])];
    let proxy = Proxy::new(setup.store.clone(), models, ProxyOptions::default()).unwrap();
    let url = serve_proxy(proxy.clone()).await;
    let mut response = setup.post(&format!("{url}/v1/chat/completions"), &streamed(chat())).await;
    response.chunk().await.unwrap().unwrap();
    proxy.cut_short();
    let rest = response.text().await.unwrap();
    assert!(rest.contains("\"code\":\"shutting_down\""), "{rest}");
    disconnected.await.unwrap();
    proxy.settled().await;
    let generation = setup.generation_when(|_| true).await;
    assert_eq!((generation.stop_reason.as_str(), generation.client_disconnected), ("client_gone", true));
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_the_request_at_the_upstream() {
    let (on_disconnect, disconnected) = oneshot::channel();
    let came = Step::Event(chunk(json!({ "content": "I am" }), None));
    let setup = Setup::new(vec![ScriptedReply::Stream(vec![came, Step::Hang(on_disconnect)])]).await;
    let (rollout, base) = setup.attempt().await;
    let mut response = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await;
    response.chunk().await.unwrap().unwrap();
    drop(response);
    disconnected.await.unwrap();
    let generation = setup.generation_when(|generation| generation.client_disconnected).await;
    assert_eq!(
        (generation.stop_reason.as_str(), generation.defect.as_ref().map(ToString::to_string).as_deref()),
        ("client_gone", Some("upstream"))
    );
    assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.content"], "I am");

    // The same before anything has come.
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(ScriptedReply::Raw(vec![Step::Hang(on_disconnect)]));
    let (rollout, base) = setup.attempt().await;
    let requests = setup.server.requests.lock().unwrap().len();
    let (client, url) = (setup.client.clone(), format!("{base}/chat/completions"));
    let waiting = tokio::spawn(async move { client.post(url).json(&chat()).send().await });
    while setup.server.requests.lock().unwrap().len() == requests {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    disconnected.await.unwrap();
    let spans = loop {
        match setup.spans(&rollout).await {
            spans if spans.is_empty() => tokio::task::yield_now().await,
            spans => break spans,
        }
    };
    assert_eq!(spans[0].attributes["error.type"], "client_gone");
}

async fn post_with_key(setup: &Setup, base: &str, key: &str, body: &Value) -> reqwest::Response {
    let request = setup.client.post(format!("{base}/chat/completions")).json(body);
    request.header("idempotency-key", key).send().await.unwrap()
}

#[tokio::test]
async fn a_request_that_is_sent_again_with_its_key_is_not_sent_on_again() {
    let go_on = Arc::new(Notify::new());
    let first = Step::Event(chunk(json!({ "content": "I am" }), None));
    let last = Step::Event(chunk(json!({ "content": " 17." }), Some("stop")));
    let steps = [first, Step::Wait(go_on.clone()), last].into_iter().chain(Step::done()).collect();
    let setup = Setup::new(vec![ScriptedReply::Stream(steps), ScriptedReply::Json(200, chat_answer("other"))]).await;
    let (_, base) = setup.attempt().await;
    let mut one = post_with_key(&setup, &base, "k", &streamed(chat())).await;
    let first = one.chunk().await.unwrap().unwrap();
    // In flight: it joins.
    let other = post_with_key(&setup, &base, "k", &streamed(chat())).await;
    go_on.notify_one();
    let one = [first.to_vec(), one.bytes().await.unwrap().to_vec()].concat();
    assert_eq!(one, other.bytes().await.unwrap());
    // Over: it is answered from what was kept.
    let again = post_with_key(&setup, &base, "k", &streamed(chat())).await;
    assert_eq!(again.bytes().await.unwrap(), one);
    assert_eq!(setup.server.requests.lock().unwrap().len(), 1);
    assert_eq!(setup.generations().await.len(), 1);
    // Another body under that key is a mistake, and the same key elsewhere another request.
    assert_eq!(post_with_key(&setup, &base, "k", &chat()).await.status(), 400);
    let (_, elsewhere) = setup.attempt().await;
    assert_eq!(post_with_key(&setup, &elsewhere, "k", &chat()).await.status(), 200);
    assert_eq!(setup.server.requests.lock().unwrap().len(), 2);
    let attributes = setup.attributes(&setup.generations().await[0].rollout_id).await;
    assert_eq!(attributes["fulgurite.request.idempotency_key"], "k");
}

#[tokio::test]
async fn an_answer_that_was_taken_stays_so_when_one_who_asks_for_it_again_leaves() {
    // More than a connection holds that nobody reads from.
    let part = "x".repeat(1 << 16);
    let part = || Step::Event(chunk(json!({ "content": part }), None));
    let last = || Step::Event(chunk(json!({ "content": "." }), Some("stop")));
    let long = (0..256).map(|_| part()).chain([last()]).chain(Step::done()).collect();
    let setup = Setup::new(vec![ScriptedReply::Stream(long)]).await;
    let (_, base) = setup.attempt().await;
    let whole = post_with_key(&setup, &base, "k", &streamed(chat())).await.bytes().await.unwrap();
    assert!(whole.ends_with(b"data: [DONE]\n\n"));
    drop(post_with_key(&setup, &base, "k", &streamed(chat())).await);
    // Whenever it is seen that nobody reads any more, the same body asks anew: the answer did not break.
    for requests in 2..22 {
        setup.play(ScriptedReply::Stream([last()].into_iter().chain(Step::done()).collect()));
        let response = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await;
        assert!(response.bytes().await.unwrap().len() < 1 << 16);
        assert_eq!(setup.server.requests.lock().unwrap().len(), requests);
    }
    assert!(setup.generations().await.iter().all(|generation| !generation.client_disconnected));
}

#[tokio::test]
async fn a_retry_of_an_error_asks_anew_and_one_of_an_answer_does_not() {
    let setup = Setup::new(vec![
        ScriptedReply::Json(500, json!({ "error": "no" })),
        ScriptedReply::Json(200, chat_answer("a")),
        ScriptedReply::Json(200, chat_answer("b")),
    ])
    .await;
    let (_, base) = setup.attempt().await;
    let send = async |retry: &str| {
        let request = setup.client.post(format!("{base}/chat/completions")).json(&chat());
        let response = request.header("x-stainless-retry-count", retry).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap()["id"].clone())
    };
    assert_eq!(send("0").await, (500, Value::Null));
    // Its error was told; once that is noted, nobody is given it again.
    let mut answered = send("1").await;
    while answered.0 == 500 {
        answered = send("1").await;
    }
    assert_eq!(answered, (200, json!("a")));
    assert_eq!(send("2").await, (200, json!("a")));
    // Not said to be a retry: a new sample, however much it looks alike.
    assert_eq!(send("0").await, (200, json!("b")));
    assert_eq!(setup.generations().await.len(), 2);
}

#[tokio::test]
async fn a_host_that_gives_no_answer_is_passed_over_for_another() {
    let setup = Setup::new(vec![]).await;
    let dead = ScriptedServer::start(|_| ScriptedReply::Raw(vec![Step::Reset])).await;
    let alive = ScriptedServer::start(|_| ScriptedReply::Json(200, chat_answer("alive"))).await;
    let refusing = ScriptedServer::start(|_| ScriptedReply::Json(500, json!({ "error": "of its own" }))).await;
    let model = |name: &str, hosts: [&ScriptedServer; 2]| {
        upstream_model(name, name, UpstreamDialect::OpenAi, hosts.map(|host| host.url.clone()).to_vec())
    };
    let models =
        vec![model("one", [&dead, &alive]), model("two", [&alive, &dead]), model("three", [&refusing, &refusing])];
    let url = serve(&setup.store, models).await;
    for (name, status) in [("one", 200), ("two", 200), ("three", 500)] {
        let mut body = chat();
        body["model"] = json!(name);
        assert_eq!(setup.post(&format!("{url}/v1/chat/completions"), &body).await.status(), status, "{name}");
    }
    // A status is an answer, and is not asked for again elsewhere.
    assert_eq!(refusing.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_attempts_budget_holds_for_calls_that_are_passed_on_and_after_a_restart() {
    for (budget, code) in
        [(json!({ "calls": 1 }), "budget_exceeded"), (json!({ "tokens": 14 }), "context_length_exceeded")]
    {
        let setup =
            Setup::new(vec![ScriptedReply::Json(500, json!({})), ScriptedReply::Json(200, chat_answer("a"))]).await;
        let (_, base) = setup.attempt_with(json!({ "fulgurite_budget": budget })).await;
        // What came to nothing takes nothing.
        for status in [500, 200, 400] {
            assert_eq!(setup.post(&format!("{base}/chat/completions"), &chat()).await.status(), status, "{budget}");
        }
        let model = upstream_model("judge", "gpt-x", UpstreamDialect::OpenAi, vec![setup.server.url.clone()]);
        let base = base.replace(&setup.url, &serve(&setup.store, vec![model]).await);
        let response = setup.post(&format!("{base}/chat/completions"), &chat()).await;
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], code, "{error}");
        assert_eq!(setup.server.requests.lock().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_call_that_is_passed_on_ends_where_the_attempts_time_does() {
    let setup = Setup::new(vec![]).await;
    // An attempt gets more time until its call reaches the upstream within it; there it hangs.
    let until_its_time_is_over = async |steps: &dyn Fn() -> Vec<Step>, body: &Value, status: u16| {
        let mut seconds = 0.5;
        loop {
            let (on_disconnect, disconnected) = oneshot::channel();
            let mut hanging = steps();
            hanging.push(Step::Hang(on_disconnect));
            setup.play(if hanging.len() > 1 { ScriptedReply::Stream(hanging) } else { ScriptedReply::Raw(hanging) });
            let requests = setup.server.requests.lock().unwrap().len();
            let (rollout, base) = setup.attempt_with(json!({ "fulgurite_budget": { "seconds": seconds } })).await;
            let response = setup.post(&format!("{base}/chat/completions"), body).await;
            if setup.server.requests.lock().unwrap().len() > requests && response.status() == status {
                let text = response.text().await.unwrap();
                disconnected.await.unwrap();
                return (rollout, seconds, text);
            }
            setup.scripts.lock().unwrap().clear();
            seconds *= 2.0;
        }
    };

    let (rollout, seconds, text) = until_its_time_is_over(&Vec::new, &chat(), 400).await;
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error["error"]["code"], "budget_exceeded", "{error}");
    assert_eq!(error["error"]["message"], format!("the attempt's budget of {seconds} seconds is spent"));
    assert_eq!(setup.attributes(&rollout).await["error.type"], "budget_exceeded");

    let started = || vec![Step::Event(chunk(json!({ "content": "I am" }), None))];
    let (rollout, _, text) = until_its_time_is_over(&started, &streamed(chat()), 200).await;
    assert!(text.contains("I am") && text.contains("\"code\":\"budget_exceeded\""), "{text}");
    assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.content"], "I am");
}
