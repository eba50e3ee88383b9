//! New weights behind remote hosts: vLLM and SGLang as scripts of their routes, and several hosts as one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulgurite_types::WeightsVersion;

use crate::sample_request::sample_request;
use crate::scripted::{Request, ScriptedReply, ScriptedServer, Step, completed};
use fulgurite_backends::{
    BackendError, Changeover, LlamaCppSampler, NewWeights, RemoteOptions, ReplicaOptions, Replicas, SampleEvent,
    SampleRequest, SampleStream, Sampler, SglangSampler, VllmSampler, WeightsSource,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

fn options(url: &str, changeover: Changeover) -> RemoteOptions {
    RemoteOptions {
        url: url.to_owned(),
        model: "tiny".into(),
        vocabulary_size: 100,
        api_key: None,
        silence_limit: Duration::from_secs(60),
        changeover,
    }
}

fn model(version: u64) -> NewWeights {
    let source = WeightsSource::Model(PathBuf::from(format!("/weights/{version}")));
    NewWeights { version: WeightsVersion(version), source }
}

fn adapter(version: u64) -> NewWeights {
    let source = WeightsSource::Adapter(PathBuf::from(format!("/adapters/{version}")));
    NewWeights { version: WeightsVersion(version), source }
}

/// The versions of an answer's tokens.
async fn versions(mut stream: SampleStream) -> Vec<Option<u64>> {
    let mut versions = Vec::new();
    loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => versions.push(token.weights_version.map(|version| version.0)),
            SampleEvent::WeightsVersions(reported) => {
                versions = reported.into_iter().map(|version| version.map(|it| it.0)).collect()
            }
            SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(_) => return versions,
        }
    }
}

/// A server that samples one token and takes new weights, and remembers what it was told.
#[derive(Default)]
struct Host {
    label: Mutex<String>,
    adapters: Mutex<Vec<String>>,
    /// Routes that fail.
    failing: Mutex<Vec<&'static str>>,
    /// Answers wait for it.
    held: Mutex<Option<Arc<Notify>>>,
    /// A new model waits for it.
    stalled: Mutex<Option<Arc<Notify>>>,
    requests: Mutex<Vec<String>>,
    /// How often it was asked how it is.
    health_checks: AtomicUsize,
}

impl Host {
    fn new() -> Arc<Self> {
        Arc::new(Self { label: Mutex::new("default".into()), ..Self::default() })
    }

    async fn serve(self: &Arc<Self>) -> ScriptedServer {
        let host = self.clone();
        ScriptedServer::start(move |request| host.answer(request)).await
    }

    /// What changes of weights were asked of it, in order.
    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn fail(&self, routes: &[&'static str]) {
        *self.failing.lock().unwrap() = routes.to_vec();
    }

    fn hold(&self) -> Arc<Notify> {
        self.held.lock().unwrap().insert(Arc::new(Notify::new())).clone()
    }

    fn answer(&self, request: &Request) -> ScriptedReply {
        let path = request.path.trim_start_matches('/');
        if path == "health" {
            self.health_checks.fetch_add(1, Ordering::Relaxed);
        }
        if self.failing.lock().unwrap().iter().any(|route| path.starts_with(route)) {
            return ScriptedReply::Json(500, json!({ "error": "out of memory" }));
        }
        let done = || ScriptedReply::Json(200, json!({ "success": true }));
        match path {
            "health" => ScriptedReply::Json(200, Value::Null),
            "load_lora_adapter" if self.has(&request.body["lora_name"]) => {
                let message = format!("LoRA with name {} already exists", request.body["lora_name"]);
                ScriptedReply::Json(400, json!({ "success": false, "error_message": message }))
            }
            "v1/models" => self.models(),
            "inference/v1/generate" => ScriptedReply::Json(403, json!({ "error": "no" })),
            "v1/completions" if request.body == json!({}) => ScriptedReply::Json(400, json!({ "error": "empty" })),
            "v1/completions" if request.body["top_k"] == 1 => {
                ScriptedReply::Stream(events(vec![completed(&[(3, 0.0)], Some("length"))]))
            }
            "v1/completions" => self.sample(&request.body["model"], completed(&[(9, -0.5)], Some("stop"))),
            "generate" => self.sample(&request.body["lora_path"], self.generated()),
            "weight_info" | "model_info" => {
                ScriptedReply::Json(200, json!({ "weight_version": *self.label.lock().unwrap() }))
            }
            _ if request.method != "POST" => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
            _ => {
                self.requests.lock().unwrap().push(format!("{path} {}", request.body));
                self.change(path, &request.body);
                match self.stalled.lock().unwrap().take_if(|_| path == "collective_rpc") {
                    Some(stalled) => ScriptedReply::Raw(vec![
                        Step::Wait(stalled),
                        Step::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}".to_vec()),
                    ]),
                    None => done(),
                }
            }
        }
    }

    fn has(&self, adapter: &Value) -> bool {
        self.adapters.lock().unwrap().iter().any(|name| name == adapter)
    }

    /// The versions of the adapters that it has, and what is behind these in their names.
    fn adapters(&self) -> (Vec<u64>, Vec<String>) {
        let adapters = self.adapters.lock().unwrap();
        let parts = adapters.iter().map(|name| name.strip_prefix("tiny-weights-").unwrap().split_once('-').unwrap());
        parts.map(|(version, load)| (version.parse::<u64>().unwrap(), load.to_owned())).unzip()
    }

    /// Lets the host be asked how it is so many times more, unless nobody asks.
    async fn look(&self, times: usize) {
        let enough = self.health_checks.load(Ordering::Relaxed) + times;
        for _ in 0..200 {
            if self.health_checks.load(Ordering::Relaxed) >= enough {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn change(&self, path: &str, body: &Value) {
        let text = |field: &str| body[field].as_str().unwrap().to_owned();
        match path {
            "update_weight_version" => *self.label.lock().unwrap() = text("new_version"),
            "update_weights_from_disk" => *self.label.lock().unwrap() = text("weight_version"),
            "v1/load_lora_adapter" | "load_lora_adapter" => self.adapters.lock().unwrap().push(text("lora_name")),
            "v1/unload_lora_adapter" | "unload_lora_adapter" => {
                let name = text("lora_name");
                self.adapters.lock().unwrap().retain(|adapter| *adapter != name);
            }
            _ => {}
        }
    }

    fn models(&self) -> ScriptedReply {
        let mut models = vec![json!({ "id": "served", "max_model_len": 64 })];
        models.extend(self.adapters.lock().unwrap().iter().map(|name| json!({ "id": name, "parent": "served" })));
        ScriptedReply::Json(200, json!({ "data": models }))
    }

    fn sample(&self, adapter: &Value, event: Value) -> ScriptedReply {
        self.requests.lock().unwrap().push(format!("sample {adapter}"));
        let mut steps = events(vec![event]);
        if let Some(held) = self.held.lock().unwrap().take() {
            steps.insert(0, Step::Wait(held));
        }
        ScriptedReply::Stream(steps)
    }

    fn generated(&self) -> Value {
        let meta = json!({
            "finish_reason": { "type": "stop", "matched": 9 }, "completion_tokens": 1,
            "output_token_logprobs": [[-0.5, 9, null]], "weight_version": *self.label.lock().unwrap(),
        });
        json!({ "output_ids": [9], "meta_info": meta })
    }
}

fn events(events: Vec<Value>) -> Vec<Step> {
    events.into_iter().map(Step::Event).chain(Step::done()).collect()
}

async fn vllm(host: &Arc<Host>, changeover: Changeover) -> (ScriptedServer, Arc<VllmSampler>) {
    let server = host.serve().await;
    let sampler = VllmSampler::new(&options(&server.url, changeover)).unwrap();
    (server, Arc::new(sampler.with_base(Some("/weights/base".into()))))
}

async fn one_answer(sampler: &dyn Sampler) -> Vec<Option<u64>> {
    versions(sampler.sample(sample_request()).await.unwrap()).await
}

#[tokio::test]
async fn a_model_is_replaced_between_answers_and_their_version_is_certain() {
    let host = Host::new();
    let (_server, sampler) = vllm(&host, Changeover::Drain).await;
    assert_eq!(one_answer(&*sampler).await, [None]);
    let held = host.hold();
    let under_way = sampler.sample(sample_request()).await.unwrap();
    host.take_requests();

    let new = model(4);
    let mut loading = std::pin::pin!(sampler.load_weights(&new));
    tokio::select! {
        biased;
        loaded = &mut loading => panic!("under an answer: {loaded:?}"),
        () = std::future::ready(()) => {}
    }
    // Whoever comes now is held, without an error, and gets the new weights.
    let later = tokio::spawn({
        let sampler = sampler.clone();
        async move { one_answer(&*sampler).await }
    });
    assert_eq!(host.take_requests(), [] as [String; 0], "nothing is changed under an answer");
    held.notify_one();
    assert_eq!(versions(under_way).await, [None]);
    loading.await.unwrap();
    assert_eq!(later.await.unwrap(), [Some(4)]);
    assert_eq!(sampler.weights_version(), Some(WeightsVersion(4)));
    assert_eq!(
        host.take_requests(),
        [
            "pause?mode=wait {}",
            "update_weight_version {\"new_version\":\"being-replaced\"}",
            "collective_rpc {\"method\":\"reload_weights\",\"kwargs\":{\"weights_path\":\"/weights/4\"}}",
            "reset_prefix_cache?reset_running_requests=false {}",
            "update_weight_version {\"new_version\":\"v4\"}",
            "resume {}",
            "sample \"served\"",
        ]
    );
}

#[tokio::test]
async fn in_flight_answers_go_on_from_the_new_weights_and_only_the_host_can_tell_them_apart() {
    let host = Host::new();
    let (_server, sampler) = vllm(&host, Changeover::InFlight).await;
    let held = host.hold();
    let under_way = sampler.sample(sample_request()).await.unwrap();
    sampler.load_weights(&model(4)).await.unwrap();
    held.notify_one();
    assert_eq!(versions(under_way).await, [None], "this route does not tell");
    assert_eq!(one_answer(&*sampler).await, [None]);
    let requests = host.take_requests();
    assert!(requests.contains(&"pause?mode=keep {}".to_owned()), "{requests:?}");
    assert!(requests.contains(&"reset_prefix_cache?reset_running_requests=true {}".to_owned()), "{requests:?}");
}

#[tokio::test]
async fn a_model_that_cannot_be_read_leaves_no_version_behind_and_no_server_paused() {
    let host = Host::new();
    let (_server, sampler) = vllm(&host, Changeover::Drain).await;
    sampler.load_weights(&model(4)).await.unwrap();
    host.take_requests();
    host.fail(&["collective_rpc"]);
    let error = sampler.load_weights(&model(5)).await.unwrap_err();
    assert!(error.to_string().contains("out of memory"), "{error}");
    assert_eq!(host.take_requests().last().unwrap(), "resume {}");
    assert_eq!(*host.label.lock().unwrap(), "being-replaced");
    assert_eq!(one_answer(&*sampler).await, [None]);
    host.fail(&[]);
    sampler.load_weights(&model(5)).await.unwrap();
    assert_eq!(one_answer(&*sampler).await, [Some(5)]);
}

#[tokio::test]
async fn a_server_that_was_not_started_for_it_says_how_it_must_be() {
    let server = ScriptedServer::start(|_| ScriptedReply::Json(404, json!({ "detail": "Not Found" }))).await;
    let sampler = VllmSampler::new(&options(&server.url, Changeover::Drain)).unwrap();
    let error = sampler.load_weights(&model(1)).await.unwrap_err().to_string();
    assert!(error.contains("VLLM_SERVER_DEV_MODE=1"), "{error}");
    let error = sampler.load_weights(&adapter(1)).await.unwrap_err().to_string();
    assert!(error.contains("--enable-lora"), "{error}");
    let kept = NewWeights { source: WeightsSource::Kept("tinker://x".into()), ..model(1) };
    let error = sampler.load_weights(&kept).await.unwrap_err();
    assert!(matches!(error, BackendError::Configuration { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_keeps_its_adapter_to_the_end_and_an_unused_one_is_removed() {
    for sglang in [false, true] {
        let host = Host::new();
        let server = host.serve().await;
        let options = options(&server.url, Changeover::Drain);
        let sampler: Arc<dyn Sampler> = match sglang {
            true => Arc::new(SglangSampler::new(&options).unwrap()),
            false => Arc::new(VllmSampler::new(&options).unwrap()),
        };
        sampler.load_weights(&adapter(1)).await.unwrap();
        let held = host.hold();
        let under_way = sampler.sample(sample_request()).await.unwrap();
        sampler.load_weights(&adapter(2)).await.unwrap();
        assert_eq!(host.adapters().0, [1, 2], "the first is in use");
        assert_eq!(one_answer(&*sampler).await, [Some(2)]);
        held.notify_one();
        assert_eq!(versions(under_way).await, [Some(1)]);
        sampler.load_weights(&adapter(3)).await.unwrap();
        assert_eq!(host.adapters().0, [3]);
        let requests = host.take_requests();
        assert!(requests.iter().any(|request| request.starts_with("sample \"tiny-weights-1-")), "{requests:?}");
        // A server that is looked at anew is not confused by the adapters that it lists.
        assert_eq!(sampler.info().await.unwrap().context_length, 64);
    }
}

/// What an adapter does at a host with this label, behind which a whole model was put before, or not.
async fn adapter_after_whole_model(sglang: bool, base: Option<&str>, label: &str, replaced: bool) -> AfterWholeModel {
    let host = Host::new();
    *host.label.lock().unwrap() = label.to_owned();
    let server = host.serve().await;
    let options = options(&server.url, Changeover::Drain);
    let base = base.map(PathBuf::from);
    let sampler: Arc<dyn Sampler> = match sglang {
        true => Arc::new(SglangSampler::new(&options).unwrap().with_base(base)),
        false => Arc::new(VllmSampler::new(&options).unwrap().with_base(base)),
    };
    if replaced {
        sampler.load_weights(&model(4)).await.unwrap();
    }
    host.take_requests();
    let loaded = sampler.load_weights(&adapter(5)).await.map_err(|error| error.to_string());
    let requests = host.take_requests();
    let reload = requests.iter().position(|request| request.contains("/weights/base"));
    let adapter = requests.iter().position(|request| request.contains("load_lora_adapter"));
    let version = one_answer(&*sampler).await[0];
    let again = sampler.load_weights(&self::adapter(6)).await.is_ok();
    let reloads_again = host.take_requests().iter().any(|request| request.contains("/weights/base"));
    AfterWholeModel { loaded, reload, adapter, version, again: again.then_some(reloads_again) }
}

struct AfterWholeModel {
    loaded: Result<(), String>,
    /// The place of the base's reload among the changes of the host, and that of the adapter.
    reload: Option<usize>,
    adapter: Option<usize>,
    /// Of the next answer.
    version: Option<u64>,
    /// Whether the next adapter reloads the base too, if it is loaded.
    again: Option<bool>,
}

#[tokio::test]
async fn an_adapter_after_a_whole_model_is_over_the_model_that_the_host_was_started_with() {
    for sglang in [false, true] {
        let after = adapter_after_whole_model(sglang, Some("/weights/base"), "default", true).await;
        assert_eq!(after.loaded, Ok(()));
        assert!(after.reload.is_some() && after.reload < after.adapter, "{:?} {:?}", after.reload, after.adapter);
        assert_eq!((after.version, after.again), (Some(5), Some(false)), "the base is put back once");
        // The whole model was put there before this server was started.
        let after = adapter_after_whole_model(sglang, Some("/weights/base"), "v7", false).await;
        assert!(after.loaded.is_ok() && after.reload.is_some() && after.reload < after.adapter);
        // The host has what it was started with.
        let after = adapter_after_whole_model(sglang, Some("/weights/base"), "default", false).await;
        assert!(after.loaded.is_ok() && after.reload.is_none() && after.adapter.is_some());
        // The files of that are not known.
        let after = adapter_after_whole_model(sglang, None, "default", true).await;
        let error = after.loaded.unwrap_err();
        assert!(error.contains("labelled `v4`") && error.contains("[[models]] path"), "{error}");
        assert_eq!((after.adapter, after.version, after.again), (None, Some(4), None), "it keeps what it has");
    }
}

#[tokio::test]
async fn sglang_confirms_the_version_and_freezes_answers_if_it_is_to() {
    let host = Host::new();
    let server = host.serve().await;
    let sampler = SglangSampler::new(&options(&server.url, Changeover::InFlight)).unwrap();
    sampler.load_weights(&model(4)).await.unwrap();
    let update = "{\"model_path\":\"/weights/4\",\"weight_version\":\"v4\",\"flush_cache\":true}";
    let requests = [
        "pause_generation {\"mode\":\"retract\"}".to_owned(),
        format!("update_weights_from_disk {update}"),
        "continue_generation {}".to_owned(),
    ];
    assert_eq!(host.take_requests(), requests);
    assert_eq!(one_answer(&sampler).await, [Some(4)]);
    host.fail(&["update_weights_from_disk"]);
    sampler.load_weights(&model(5)).await.unwrap_err();
    assert_eq!(host.take_requests().last().unwrap(), "continue_generation {}");
}

#[tokio::test]
async fn a_host_that_lacks_the_newest_weights_is_asked_for_nothing_until_it_has_them() {
    let hosts = [Host::new(), Host::new()];
    let mut servers = Vec::new();
    let mut samplers: Vec<(String, Arc<dyn Sampler>)> = Vec::new();
    for host in &hosts {
        let (server, sampler) = vllm(host, Changeover::Drain).await;
        samplers.push((server.url.clone(), sampler));
        servers.push(server);
    }
    let interval = Some(Duration::from_millis(20));
    let replicas = Replicas::new(samplers, &ReplicaOptions { health_interval: interval, ..ReplicaOptions::default() });
    replicas.load_weights(&model(1)).await.unwrap();
    assert_eq!(replicas.weights_version(), Some(WeightsVersion(1)));

    hosts[1].fail(&["collective_rpc"]);
    replicas.load_weights(&model(2)).await.unwrap();
    hosts.iter().for_each(|host| drop(host.take_requests()));
    for affinity in 0..20 {
        let request = SampleRequest { affinity: Some(affinity.to_string()), ..sample_request() };
        assert_eq!(versions(replicas.sample(request).await.unwrap()).await, [Some(2)]);
    }
    assert!(!hosts[1].take_requests().iter().any(|request| request.starts_with("sample")));

    hosts[1].fail(&[]);
    while *hosts[1].label.lock().unwrap() != "v2" || hosts[1].take_requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It is there again once the confirmation has been read, which comes after the label.
    let mut answered = Vec::new();
    while !answered.contains(&1) {
        for affinity in 0..20 {
            let request = SampleRequest { affinity: Some(affinity.to_string()), ..sample_request() };
            assert_eq!(versions(replicas.sample(request).await.unwrap()).await, [Some(2)]);
        }
        answered = (0..2)
            .filter(|&it| hosts[it].take_requests().iter().any(|request| request.starts_with("sample")))
            .collect();
    }

    hosts.iter().for_each(|host| host.fail(&["collective_rpc"]));
    let error = replicas.load_weights(&model(3)).await.unwrap_err();
    assert!(error.to_string().contains("out of memory"), "{error}");
    let error = replicas.sample(sample_request()).await.unwrap_err();
    assert!(error.to_string().contains("newest weights"), "{error}");
    assert_eq!(replicas.info().await.unwrap().context_length, 64, "they are the same model's all the same");
}

/// One host behind replicas that do not look after it.
fn alone(sampler: Arc<dyn Sampler>) -> Replicas {
    let options = ReplicaOptions { health_interval: None, ..ReplicaOptions::default() };
    Replicas::new(vec![("host".into(), sampler)], &options)
}

#[tokio::test]
async fn an_adapter_that_comes_again_has_a_name_that_nothing_was_computed_under() {
    for sglang in [false, true] {
        let host = Host::new();
        let server = host.serve().await;
        let options = options(&server.url, Changeover::Drain);
        let sampler = || -> Arc<dyn Sampler> {
            match sglang {
                true => Arc::new(SglangSampler::new(&options).unwrap()),
                false => Arc::new(VllmSampler::new(&options).unwrap()),
            }
        };
        let mut loads = Vec::new();
        // The second is what a server has that was started anew.
        for sampler in [sampler(), sampler()] {
            for _ in 0..2 {
                sampler.load_weights(&adapter(1)).await.unwrap();
                loads.push(host.adapters().1.pop().unwrap());
                assert_eq!(one_answer(&*sampler).await, [Some(1)]);
            }
        }
        assert_eq!(host.adapters().0, [1, 1], "each has taken its own away, and left that of the other");
        loads.sort();
        loads.dedup();
        assert_eq!(loads.len(), 4);
    }
}

#[tokio::test]
async fn weights_that_no_host_takes_leave_the_model_with_what_it_has() {
    let host = Host::new();
    let (server, sampler) = vllm(&host, Changeover::Drain).await;
    let replicas = alone(sampler);
    let kept = NewWeights { source: WeightsSource::Kept("tinker://x".into()), ..model(1) };
    let nowhere = NewWeights { source: WeightsSource::Model(PathBuf::new()), ..model(1) };
    let fails = ["v1/load_lora_adapter", "collective_rpc"];
    let cases = [(adapter(1), None), (model(1), None), (kept.clone(), None), (nowhere.clone(), None)];
    for (weights, version) in cases {
        host.fail(&fails);
        replicas.load_weights(&weights).await.unwrap_err();
        assert_eq!(one_answer(&replicas).await, [version], "{weights:?}");
    }
    host.fail(&[]);
    replicas.load_weights(&adapter(2)).await.unwrap();
    host.fail(&fails);
    for weights in [adapter(3), kept, nowhere] {
        replicas.load_weights(&weights).await.unwrap_err();
        assert_eq!(one_answer(&replicas).await, [Some(2)], "{weights:?}");
    }
    // Of a model that was being replaced nobody knows.
    replicas.load_weights(&model(4)).await.unwrap_err();
    replicas.sample(sample_request()).await.unwrap_err();

    let llama_cpp = alone(Arc::new(LlamaCppSampler::new(&options(&server.url, Changeover::Drain)).unwrap()));
    llama_cpp.load_weights(&model(1)).await.unwrap_err();
    let error = llama_cpp.sample(sample_request()).await.unwrap_err().to_string();
    assert!(error.contains("answers 404"), "the host is asked: {error}");
}

#[tokio::test]
async fn a_host_that_fails_is_told_from_one_that_is_not_there() {
    let host = Host::new();
    let (server, sampler) = vllm(&host, Changeover::Drain).await;
    host.fail(&["v1/load_lora_adapter", "collective_rpc"]);
    for weights in [adapter(1), model(1)] {
        let error = sampler.load_weights(&weights).await.unwrap_err();
        assert!(matches!(error, BackendError::Internal { .. }), "{error}");
    }
    server.die().await;
    let error = sampler.load_weights(&adapter(1)).await.unwrap_err();
    assert!(matches!(error, BackendError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn what_is_being_replaced_is_not_put_back_behind_a_host_that_was_away() {
    let hosts = [Host::new(), Host::new()];
    let (first, second) = (vllm(&hosts[0], Changeover::Drain).await, vllm(&hosts[1], Changeover::Drain).await);
    let interval = Some(Duration::from_millis(5));
    let samplers: Vec<(String, Arc<dyn Sampler>)> = vec![("a".into(), first.1), ("b".into(), second.1)];
    let options = ReplicaOptions { health_interval: interval, ..ReplicaOptions::default() };
    let replicas = Arc::new(Replicas::new(samplers, &options));
    replicas.load_weights(&model(1)).await.unwrap();
    let stalled = hosts[0].stalled.lock().unwrap().insert(Arc::new(Notify::new())).clone();
    hosts[0].take_requests();
    let loading = tokio::spawn({
        let replicas = replicas.clone();
        async move { replicas.load_weights(&model(2)).await }
    });
    while !hosts[0].take_requests().iter().any(|request| request.contains("/weights/2")) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    hosts[0].fail(&["health"]);
    hosts[0].look(2).await;
    hosts[0].fail(&[]);
    hosts[0].look(2).await;
    stalled.notify_one();
    loading.await.unwrap().unwrap();
    hosts[0].look(2).await;
    let requests = hosts[0].take_requests();
    assert!(!requests.iter().any(|request| request.contains("/weights/1")), "{requests:?}");
    assert_eq!(*hosts[0].label.lock().unwrap(), "v2");
}
