//! A vLLM as a script that sleeps while a learner makes its passes.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_backends::{
    AdamParameters, BackendError, Changeover, ForwardBackward, GpuLearner, Learner, LossFunction, OptimizerStep,
    PublishingLearner, RemoteOptions, Sampler, SharedGpu, VllmSampler, WeightsSource,
};
use fulgurite_types::{Datum, WeightsVersion};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sample_request::sample_request;
use crate::scripted::{Request, ScriptedReply, ScriptedServer, Step, completed};

/// What the host and the learner did, in order.
type Log = Arc<Mutex<Vec<String>>>;

fn done(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

/// How a host is scripted.
#[derive(Default)]
struct Script {
    is_asleep: Mutex<bool>,
    /// How many requests to wake fail.
    failing: Mutex<usize>,
    /// Whether it has the routes of the development mode, and of the sleep mode.
    lacks_routes: bool,
    lacks_sleep_mode: bool,
}

fn answer(request: &Request, script: &Script, log: &Log) -> ScriptedReply {
    let path = request.path.trim_start_matches('/');
    let stream = |event: Value| ScriptedReply::Stream([Step::Event(event)].into_iter().chain(Step::done()).collect());
    let adapters = || {
        let log = log.lock().unwrap();
        let names = log.iter().filter_map(|line| line.strip_prefix("load "));
        names.map(|name| json!({ "id": name })).collect::<Vec<_>>()
    };
    match path {
        "v1/models" => {
            let mut models = vec![json!({ "id": "served", "max_model_len": 64 })];
            models.extend(adapters());
            ScriptedReply::Json(200, json!({ "data": models }))
        }
        "inference/v1/generate" => ScriptedReply::Json(403, json!({})),
        "v1/completions" if request.body["top_k"] == 1 => {
            log.lock().unwrap().push("look".into());
            stream(completed(&[(3, 0.0)], Some("length")))
        }
        "v1/completions" => {
            log.lock().unwrap().push("sample".into());
            stream(completed(&[(9, -0.5)], Some("stop")))
        }
        _ if script.lacks_routes => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
        "is_sleeping" => ScriptedReply::Json(200, json!({ "is_sleeping": *script.is_asleep.lock().unwrap() })),
        "server_info?config_format=json" => {
            let mode = json!({ "enable_sleep_mode": !script.lacks_sleep_mode });
            ScriptedReply::Json(200, json!({ "vllm_config": { "model_config": mode } }))
        }
        "sleep?level=1" => {
            log.lock().unwrap().push("sleep".into());
            *script.is_asleep.lock().unwrap() = true;
            ScriptedReply::Json(200, Value::Null)
        }
        "wake_up" => {
            log.lock().unwrap().push("wake_up".into());
            let mut failing = script.failing.lock().unwrap();
            if *failing > 0 {
                *failing -= 1;
                return ScriptedReply::Json(500, json!({ "error": "out of memory" }));
            }
            *script.is_asleep.lock().unwrap() = false;
            ScriptedReply::Json(200, Value::Null)
        }
        "v1/load_lora_adapter" => {
            log.lock().unwrap().push(format!("load {}", request.body["lora_name"].as_str().unwrap()));
            ScriptedReply::Json(200, Value::Null)
        }
        _ => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
    }
}

/// Writes down what it is asked for; its passes wait to be let go on, and may fail.
struct Passes {
    log: Log,
    goes_on: Arc<Notify>,
    fails: Mutex<bool>,
}

#[async_trait]
impl Learner for Passes {
    async fn forward(&self, _: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        Ok(Vec::new())
    }

    async fn forward_backward(&self, _: Arc<[Datum]>, _: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.log.lock().unwrap().push("pass".into());
        self.goes_on.notified().await;
        match *self.fails.lock().unwrap() {
            true => Err(BackendError::Unavailable { message: "the torch learner ended".into() }),
            false => Ok(ForwardBackward::default()),
        }
    }

    async fn optimizer_step(&self, _: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.log.lock().unwrap().push("step".into());
        Ok(OptimizerStep::default())
    }

    async fn save_checkpoint(&self, _: &Path) -> Result<(), BackendError> {
        Ok(())
    }

    async fn load_checkpoint(&self, _: &Path) -> Result<(), BackendError> {
        Ok(())
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        std::fs::create_dir_all(directory).unwrap();
        Ok(())
    }

    async fn publish_weights(&self, _: WeightsVersion) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl GpuLearner for Passes {
    async fn release_gpu(&self) -> Result<(), BackendError> {
        self.log.lock().unwrap().push("release".into());
        Ok(())
    }

    fn end(&self) {
        self.log.lock().unwrap().push("end".into());
    }
}

struct Setup {
    log: Log,
    script: Arc<Script>,
    sampler: Arc<VllmSampler>,
    passes: Arc<Passes>,
    gpu: Arc<SharedGpu>,
    learner: Arc<PublishingLearner>,
    _server: ScriptedServer,
    _directory: tempfile::TempDir,
}

impl Setup {
    async fn new(script: Script) -> Self {
        let (log, script) = (Log::default(), Arc::new(script));
        let (of_host, scripted) = (log.clone(), script.clone());
        let server = ScriptedServer::start(move |request| answer(request, &scripted, &of_host)).await;
        let options = RemoteOptions {
            url: server.url.clone(),
            model: "tiny".into(),
            vocabulary_size: 100,
            api_key: None,
            silence_limit: Duration::from_secs(60),
            changeover: Changeover::Drain,
        };
        let sampler = Arc::new(VllmSampler::new(&options).unwrap());
        let passes = Arc::new(Passes { log: log.clone(), goes_on: Arc::default(), fails: Mutex::default() });
        let gpu = SharedGpu::new(sampler.clone(), passes.clone());
        let directory = tempfile::tempdir().unwrap();
        let published = directory.path().join("published");
        let learner =
            Arc::new(PublishingLearner::new(gpu.learner(), gpu.receiver(), published, WeightsSource::Adapter));
        Self { log, script, sampler, passes, gpu, learner, _server: server, _directory: directory }
    }

    fn pass(&self) -> tokio::task::JoinHandle<Result<ForwardBackward, BackendError>> {
        let learner = self.learner.clone();
        tokio::spawn(async move { learner.forward_backward(Arc::new([]), LossFunction::CrossEntropy).await })
    }

    fn call(&self) -> tokio::task::JoinHandle<()> {
        let sampler = self.sampler.clone();
        tokio::spawn(async move {
            let mut stream = sampler.sample(sample_request()).await.unwrap();
            stream.next().await.unwrap();
        })
    }

    async fn until(&self, line: &str) {
        for _ in 0..1000 {
            if self.log.lock().unwrap().iter().any(|it| it == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("no {line}: {:?}", self.log.lock().unwrap());
    }
}

#[tokio::test]
async fn a_host_sleeps_during_the_pass_and_gets_the_adapter_and_calls_once_it_is_awake() {
    let it = Setup::new(Script::default()).await;
    it.gpu.prepare().await.unwrap();
    let pass = it.pass();
    it.until("pass").await;
    let call = it.call();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!call.is_finished());
    it.passes.goes_on.notify_one();
    pass.await.unwrap().unwrap();
    it.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    assert_eq!(done(&it.log), ["look", "sleep", "pass", "step"]);
    it.learner.publish_weights(WeightsVersion(1)).await.unwrap();
    call.await.unwrap();
    it.call().await.unwrap();
    let log = done(&it.log);
    let order: Vec<&str> = log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(order[..2], ["release", "wake_up"], "{log:?}");
    assert!(order.contains(&"load") && order.ends_with(&["sample"]), "{log:?}");
}

#[tokio::test]
async fn a_host_is_woken_after_a_pass_that_fails_that_is_dropped_or_that_nothing_follows() {
    let it = Setup::new(Script::default()).await;
    *it.passes.fails.lock().unwrap() = true;
    it.passes.goes_on.notify_one();
    it.pass().await.unwrap().unwrap_err();
    assert_eq!(done(&it.log), ["look", "sleep", "pass", "release", "wake_up"]);

    *it.passes.fails.lock().unwrap() = false;
    it.passes.goes_on.notify_one();
    it.pass().await.unwrap().unwrap();
    it.until("wake_up").await;
    assert_eq!(done(&it.log), ["sleep", "pass", "release", "wake_up"]);

    let pass = it.pass();
    it.until("pass").await;
    pass.abort();
    let _ = pass.await;
    it.gpu.close().await.unwrap();
    assert_eq!(done(&it.log), ["sleep", "pass", "end", "release", "wake_up"]);
    it.gpu.close().await.unwrap();
    assert_eq!(done(&it.log), Vec::<String>::new());
}

#[tokio::test]
async fn a_wake_up_that_fails_is_tried_again_and_then_reported() {
    let it = Setup::new(Script { failing: Mutex::new(2), ..Script::default() }).await;
    it.passes.goes_on.notify_one();
    it.pass().await.unwrap().unwrap();
    it.learner.publish_weights(WeightsVersion(1)).await.unwrap();
    let log = done(&it.log);
    assert_eq!(log[3..7], ["release", "wake_up", "wake_up", "wake_up"], "{log:?}");
    *it.script.failing.lock().unwrap() = usize::MAX;
    it.passes.goes_on.notify_one();
    it.pass().await.unwrap().unwrap();
    let error = it.learner.publish_weights(WeightsVersion(2)).await.unwrap_err().to_string();
    assert!(error.contains("out of memory") && error.contains("/wake_up)"), "{error}");
    assert!(!done(&it.log).iter().any(|line| line.starts_with("load")));
}

#[tokio::test]
async fn a_host_that_cannot_sleep_is_found_out_at_the_start_and_one_that_sleeps_is_woken() {
    for script in
        [Script { lacks_routes: true, ..Script::default() }, Script { lacks_sleep_mode: true, ..Script::default() }]
    {
        let error = Setup::new(script).await.gpu.prepare().await.unwrap_err().to_string();
        let words = "VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --enable-sleep-mode";
        assert!(error.contains(words), "{error}");
    }
    let it = Setup::new(Script { is_asleep: Mutex::new(true), ..Script::default() }).await;
    it.gpu.prepare().await.unwrap();
    assert_eq!(done(&it.log), ["wake_up"]);
}
