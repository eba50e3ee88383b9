//! A service that speaks the Tinker API, with a model of one number: the logprob of every token is
//! `-2 + steps / 8`, where `steps` counts optimizer steps. Faults are written down by path.
#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fulgurite_tinker::Patience;
use fulgurite_tinker::wire::protobuf::{
    ForwardBackwardOutput, ForwardBackwardRequest, SampleResponse, SampledSequence, StopReason,
};
use prost::Message;
use serde_json::{Value, json};

use super::scripted::{Request, ScriptedReply, ScriptedServer, Step};

/// Waits for nothing longer than it must, and gives nothing up that is tried again.
pub const PATIENCE: Patience = Patience {
    first_wait: Duration::from_millis(1),
    longest_wait: Duration::from_millis(2),
    failing: Duration::from_secs(60),
    busy: Duration::from_secs(60),
    unpaid: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    poll: Duration::from_secs(60),
    heartbeat: Duration::from_secs(3600),
};

/// What is answered in place of what would have been.
pub struct Fault {
    /// Whether the request has its effect all the same.
    pub takes_effect: bool,
    pub reply: ScriptedReply,
}

impl Fault {
    /// The request is refused.
    pub fn status(status: u16, body: Value) -> Self {
        Self { takes_effect: false, reply: ScriptedReply::Json(status, body) }
    }

    /// The request has its effect, and its answer is lost with the connection.
    pub fn lost_answer() -> Self {
        Self { takes_effect: true, reply: ScriptedReply::Raw(vec![Step::Reset]) }
    }

    /// The connection is reset before the request has any effect.
    pub fn reset() -> Self {
        Self { takes_effect: false, reply: ScriptedReply::Raw(vec![Step::Reset]) }
    }

    /// The request has its effect, and is answered by bytes of this type.
    pub fn bytes(content_type: &str, bytes: &[u8]) -> Self {
        Self { takes_effect: true, reply: answer(200, &format!("content-type: {content_type}\r\n"), bytes) }
    }
}

/// An answer with headers of its own.
pub fn answer(status: u16, headers: &str, body: &[u8]) -> ScriptedReply {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    ScriptedReply::Raw(vec![Step::Bytes([head.as_bytes(), body].concat())])
}

/// The model's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    pub steps: u32,
}

impl Weights {
    pub fn logprob(&self) -> f32 {
        -2.0 + self.steps as f32 / 8.0
    }
}

#[derive(Debug, Default)]
struct Model {
    weights: Weights,
    /// Datums whose gradient has accumulated.
    accumulated: usize,
    /// The place of the last request.
    last: u64,
}

/// A result that can be asked for any number of times.
enum ResultOf {
    Json(Value),
    Message(Vec<u8>),
}

#[derive(Default)]
struct ServiceState {
    faults: HashMap<String, VecDeque<Fault>>,
    scripts: VecDeque<SampledSequence>,
    sessions: usize,
    /// Those that were opened since the last start.
    open_sessions: Vec<String>,
    models: HashMap<String, Model>,
    checkpoints: HashMap<String, Weights>,
    samplers: HashMap<String, Weights>,
    /// By what a request is known again: its body and the id of its result.
    submitted: HashMap<String, (Vec<u8>, usize)>,
    results: Vec<ResultOf>,
    duplicates: usize,
    violations: Vec<String>,
}

/// How the service is.
#[derive(Clone)]
pub struct TinkerKind {
    /// What `client/config` answers.
    pub config: Value,
    /// What `client/dynamic_config` answers, if there is one.
    pub dynamic: Option<Value>,
    /// What it says of its models.
    pub capabilities: Value,
    /// The only key that is taken.
    pub key: Option<String>,
    /// Whether logprobs are those after a temperature below 1 was applied, which makes each token certain.
    pub reports_temperature: bool,
    /// Whether logprobs are those after top-k was applied.
    pub tells_truncation: bool,
    /// Losses that it does not take.
    pub refused_losses: Vec<&'static str>,
    /// The greatest rank that it takes.
    pub greatest_rank: u64,
    /// Whether training requests are taken and never answered.
    pub hangs: bool,
}

impl Default for TinkerKind {
    fn default() -> Self {
        let model = json!({ "model_name": "base", "max_context_length": 64, "trainable": true });
        Self {
            config: json!({}),
            dynamic: Some(json!({})),
            capabilities: json!({ "supported_models": [model] }),
            key: None,
            reports_temperature: false,
            tells_truncation: false,
            refused_losses: Vec::new(),
            greatest_rank: u64::MAX,
            hangs: false,
        }
    }
}

pub struct Tinker {
    kind: Mutex<TinkerKind>,
    state: Mutex<ServiceState>,
}

impl Tinker {
    pub fn new(kind: TinkerKind) -> Arc<Self> {
        Arc::new(Self { kind: Mutex::new(kind), state: Mutex::default() })
    }

    pub async fn serve(self: &Arc<Self>) -> ScriptedServer {
        let tinker = self.clone();
        ScriptedServer::start(move |request| tinker.answer(request)).await
    }

    fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap()
    }

    /// The next request to a path below `/api/v1/` meets with this.
    pub fn fail(&self, path: &str, fault: Fault) {
        self.state().faults.entry(format!("/api/v1/{path}")).or_default().push_back(fault);
    }

    /// The next sample is this.
    pub fn play(&self, sequence: SampledSequence) {
        self.state().scripts.push_back(sequence);
    }

    /// Keeps a checkpoint after that many steps.
    pub fn keep(&self, path: &str, steps: u32) {
        self.state().checkpoints.insert(path.to_owned(), Weights { steps });
    }

    /// Takes another key from now on.
    pub fn take_key(&self, key: &str) {
        self.kind.lock().unwrap().key = Some(key.to_owned());
    }

    /// Forgets sessions and samplers, as if started again.
    pub fn restart(&self) {
        let mut state = self.state();
        state.samplers.clear();
        state.open_sessions.clear();
    }

    /// Requests that came again and were known.
    pub fn duplicates(&self) -> usize {
        self.state().duplicates
    }

    /// Steps and accumulated datums of a model.
    pub fn model(&self, id: &str) -> (u32, usize) {
        let model = &self.state().models[id];
        (model.weights.steps, model.accumulated)
    }

    /// What clients have done that they must not.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Answers a request.
    pub fn answer(&self, request: &Request) -> ScriptedReply {
        let key = self.kind.lock().unwrap().key.clone();
        let path = request.path.strip_prefix("/prefix").unwrap_or(&request.path);
        let expected = key.as_ref().map(|key| format!("x-api-key: {key}\r\n"));
        if path != "/api/v1/auth/token" && expected.is_some_and(|expected| !request.head.contains(&expected)) {
            return answer(401, "www-authenticate: Bearer error=\"invalid_token\"\r\n", b"{\"detail\": \"wrong key\"}");
        }
        let fault = self.state().faults.get_mut(path).and_then(VecDeque::pop_front);
        match fault {
            None => self.effect(path, request),
            Some(Fault { takes_effect: false, reply }) => reply,
            Some(Fault { takes_effect: true, reply }) => {
                self.effect(path, request);
                reply
            }
        }
    }

    fn effect(&self, path: &str, request: &Request) -> ScriptedReply {
        let kind = self.kind.lock().unwrap().clone();
        let (body, mut state) = (&request.body, self.state());
        let ok = |value| ScriptedReply::Json(200, value);
        let unknown = |what: &str| ScriptedReply::Json(404, json!({ "detail": format!("no {what}") }));
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| body[name].as_u64();
        if let Some(detail) = refusal_by_older_types(path, body).filter(|_| kind.dynamic.is_none()) {
            return ScriptedReply::Json(422, json!({ "detail": detail }));
        }
        match path.strip_prefix("/api/v1/").unwrap_or_default() {
            "healthz" => ok(json!({ "status": "ok" })),
            "client/config" => ok(kind.config),
            "client/dynamic_config" => kind.dynamic.map_or_else(|| unknown("such page"), ok),
            "get_server_capabilities" => ok(kind.capabilities),
            "auth/token" => ok(json!({ "jwt": kind.key })),
            "create_session" => {
                state.sessions += 1;
                let id = format!("s{}", state.sessions);
                state.open_sessions.push(id.clone());
                ok(json!({ "type": "create_session", "session_id": id }))
            }
            "session_heartbeat" => ok(json!({ "type": "session_heartbeat" })),
            "cancel_future" => ok(json!({})),
            "create_sampling_session" => {
                if !state.open_sessions.contains(&text("session_id")) {
                    return unknown("session");
                }
                let weights = match body["model_path"].as_str() {
                    None if body["base_model"] == "base" => Weights::default(),
                    None => return ScriptedReply::Json(400, json!({ "detail": "no such base model" })),
                    Some(path) => match state.checkpoints.get(path) {
                        Some(weights) => weights.clone(),
                        None => return ScriptedReply::Json(400, json!({ "detail": "no such checkpoint" })),
                    },
                };
                let id = format!("{}:sample:{}", text("session_id"), body["sampling_session_seq_id"]);
                state.samplers.insert(id.clone(), weights);
                ok(json!({ "type": "create_sampling_session", "sampling_session_id": id }))
            }
            "asample" => {
                let session = text("sampling_session_id");
                let Some(weights) = state.samplers.get(&session).cloned() else { return unknown("sampler") };
                let known = format!("{session}/{}", body["seq_id"]);
                state.submit(known, request, |state| {
                    let sequence = state.scripts.pop_front().unwrap_or_else(|| sampled(body, &weights, &kind));
                    let response = SampleResponse { sequences: vec![sequence], ..SampleResponse::default() };
                    ResultOf::Message(response.encode_to_vec())
                })
            }
            "create_model" => {
                if body["lora_config"]["rank"].as_u64().unwrap() > kind.greatest_rank {
                    let detail = format!("ranks above {} are not supported", kind.greatest_rank);
                    return ScriptedReply::Json(422, json!({ "detail": detail }));
                }
                let id = format!("{}:train:{}", text("session_id"), body["model_seq_id"]);
                state.submit(id.clone(), request, |state| {
                    state.models.insert(id.clone(), Model::default());
                    ResultOf::Json(json!({ "type": "create_model", "model_id": id }))
                })
            }
            "unload_model" => ok(json!({ "request_id": "0" })),
            "forward_backward" => {
                let message = ForwardBackwardRequest::decode(request.bytes.as_slice()).unwrap();
                if kind.hangs {
                    return ScriptedReply::Raw(vec![Step::Wait(Arc::default())]);
                }
                if kind.refused_losses.contains(&message.loss_fn.as_str()) {
                    let detail = format!("the loss {} is not supported", message.loss_fn);
                    return ScriptedReply::Json(400, json!({ "detail": detail }));
                }
                state.train(&message.model_id, message.seq_id as u64, request, |model, _| {
                    if !message.forward_only {
                        model.accumulated += message.data.len();
                    }
                    let logprob = model.weights.logprob();
                    let targets = |datum: &_| positions(datum);
                    let logprobs: Vec<Vec<f32>> =
                        message.data.iter().map(|datum| vec![logprob; targets(datum)]).collect();
                    let metrics = match kind.dynamic {
                        Some(_) => BTreeMap::from([("loss:sum".to_owned(), 100.0 * logprobs.len() as f64)]),
                        None => BTreeMap::new(),
                    };
                    ResultOf::Message(ForwardBackwardOutput::new(&logprobs, metrics).encode_to_vec())
                })
            }
            "optim_step" => state.train(&text("model_id"), number("seq_id").unwrap(), request, |model, _| {
                model.weights.steps += 1;
                model.accumulated = 0;
                ResultOf::Json(
                    json!({ "metrics": { "skyrl.ai/grad_norm": 1.5, "lr": body["adam_params"]["learning_rate"] } }),
                )
            }),
            "save_weights" | "save_weights_for_sampler" => {
                let segment = if path.ends_with("sampler") { "sampler_weights" } else { "weights" };
                let path = format!("tinker://{}/{segment}/{}", text("model_id"), text("path"));
                // As SkyRL tells it.
                let saved_path = match (kind.dynamic.is_some(), segment) {
                    (false, "sampler_weights") => format!("tinker://{}/{}", text("model_id"), text("path")),
                    _ => path.clone(),
                };
                state.train(&text("model_id"), number("seq_id").unwrap(), request, |model, checkpoints| {
                    checkpoints.insert(path.clone(), model.weights.clone());
                    ResultOf::Json(json!({ "path": saved_path }))
                })
            }
            "load_weights" => {
                state.train(&text("model_id"), number("seq_id").unwrap(), request, |model, checkpoints| {
                    match checkpoints.get(body["path"].as_str().unwrap()) {
                        Some(weights) => {
                            model.weights = weights.clone();
                            ResultOf::Json(json!({ "type": "load_weights", "model_id": body["model_id"] }))
                        }
                        None => ResultOf::Json(json!({ "error": "no such checkpoint", "category": "user" })),
                    }
                })
            }
            "retrieve_future" => {
                let id = body["request_id"].as_str().and_then(|id| id.parse::<usize>().ok());
                match id.and_then(|id| state.results.get(id)) {
                    None => unknown("such request"),
                    Some(ResultOf::Json(value)) => ok(value.clone()),
                    Some(ResultOf::Message(bytes)) if request.head.contains("accept: application/x-protobuf") => {
                        answer(200, "content-type: application/x-protobuf\r\n", bytes)
                    }
                    Some(ResultOf::Message(_)) => ok(json!({ "error": "accept no protobuf", "category": "user" })),
                }
            }
            _ => unknown("such page"),
        }
    }
}

impl ServiceState {
    /// Runs a request, unless it was run before.
    fn submit(&mut self, known: String, request: &Request, run: impl FnOnce(&mut Self) -> ResultOf) -> ScriptedReply {
        if let Some((body, id)) = self.submitted.get(&known) {
            self.duplicates += 1;
            if *body != request.bytes {
                self.violations.push(format!("{known} came twice with different bodies"));
                return ScriptedReply::Json(409, json!({ "detail": "another request has this place" }));
            }
            return ScriptedReply::Json(200, json!({ "request_id": id.to_string() }));
        }
        let result = run(self);
        let id = self.results.len();
        self.results.push(result);
        self.submitted.insert(known, (request.bytes.clone(), id));
        ScriptedReply::Json(200, json!({ "request_id": id.to_string() }))
    }

    /// Runs a model's request, which must be the next.
    fn train(
        &mut self,
        model_id: &str,
        place: u64,
        request: &Request,
        run: impl FnOnce(&mut Model, &mut HashMap<String, Weights>) -> ResultOf,
    ) -> ScriptedReply {
        self.submit(format!("{model_id}/{place}"), request, |state| {
            let model = state.models.get_mut(model_id).unwrap();
            if place != model.last + 1 {
                state.violations.push(format!("{place} came after {}", model.last));
            }
            model.last = place;
            run(model, &mut state.checkpoints)
        })
    }
}

/// Names of bodies in the official SDK of 0.25, on whose types servers without `client/dynamic_config` are built: they refuse
/// every other, as TuFT's does.
const OLDER_NAMES: [(&str, &str); 6] = [
    ("create_session", "tags user_metadata sdk_version project_id"),
    ("create_model", "session_id model_seq_id base_model user_metadata lora_config"),
    (
        "load_weights",
        "model_id seq_id session_id model_seq_id base_model user_metadata path optimizer weights_access_token",
    ),
    ("save_weights", "model_id path seq_id ttl_seconds overwrite"),
    ("save_weights_for_sampler", "model_id path sampling_session_seq_id seq_id ttl_seconds"),
    (
        "asample",
        "num_samples prompt sampling_params base_model model_path sampling_session_id seq_id prompt_logprobs \
         topk_prompt_logprobs",
    ),
];

/// Why a server on the types of the SDK of 0.25 refuses a body.
fn refusal_by_older_types(path: &str, body: &Value) -> Option<String> {
    let path = path.strip_prefix("/api/v1/").unwrap_or_default();
    let (_, known) = OLDER_NAMES.into_iter().find(|(of, _)| *of == path)?;
    let body = body.as_object()?;
    if path == "create_session" && !body.contains_key("user_metadata") {
        return Some("user_metadata: Field required".to_owned());
    }
    let is_known = |name: &&String| *name == "type" || known.split(' ').any(|known| known == *name);
    let other = body.keys().find(|name| !is_known(name))?;
    Some(format!("{other}: Extra inputs are not permitted"))
}

/// The prompt's last token and those after it, up to `max_tokens`, or to the first stop token. Each seed above 1 begins up
/// to six tokens later. Ids stay below 256.
fn sampled(body: &Value, weights: &Weights, kind: &TinkerKind) -> SampledSequence {
    let prompt = body["prompt"]["chunks"][0]["tokens"].as_array().unwrap();
    // A request that only asks for a prompt's logprobs has neither seed nor stops.
    let seed = body["sampling_params"]["seed"].as_u64().unwrap_or_default();
    let first = prompt.last().unwrap().as_u64().unwrap() + seed.saturating_sub(1) % 7;
    let max_tokens = body["sampling_params"]["max_tokens"].as_u64().unwrap();
    let stops: Vec<u64> = serde_json::from_value(body["sampling_params"]["stop"].clone()).unwrap_or_default();
    let parameters = &body["sampling_params"];
    let is_certain = kind.reports_temperature && parameters["temperature"].as_f64().unwrap() < 1.0
        || kind.tells_truncation && parameters["top_k"] == 1;
    let logprob = if is_certain { 0.0 } else { weights.logprob() };
    let mut tokens: Vec<u32> = Vec::new();
    for token in (first..first + max_tokens).map(|token| token % 256) {
        tokens.push(token as u32);
        if stops.contains(&token) {
            return SampledSequence::new(StopReason::Stop, &tokens, &vec![logprob; tokens.len()]);
        }
    }
    SampledSequence::new(StopReason::Length, &tokens, &vec![logprob; tokens.len()])
}

fn positions(datum: &fulgurite_tinker::wire::protobuf::Datum) -> usize {
    datum.loss_fn_inputs["target_tokens"].decode().unwrap().numbers.len()
}
