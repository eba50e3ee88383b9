//! vLLM's wire over the embedded engine: a host apart from the one that trains, which samples truthfully.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{
    NewWeights, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler, SamplingEnd, WeightsSource,
};
use fulgurite_engine::{Engine, EngineOptions};
use fulgurite_types::{SamplingParameters, WeightsVersion};
use serde_json::{Value, json};

pub struct VllmOverEngine {
    pub url: String,
    shared: Arc<Shared>,
    _runtime: tokio::runtime::Runtime,
}

struct Shared {
    engine: Engine,
    label: Mutex<String>,
    loaded: Mutex<Vec<PathBuf>>,
    is_asleep: AtomicBool,
    /// What concerned its sleep or came during it, in order.
    turns: Mutex<Vec<&'static str>>,
}

impl VllmOverEngine {
    pub fn start(model: &Path) -> Self {
        let engine = Engine::open(model, EngineOptions::default()).unwrap();
        let shared = Arc::new(Shared {
            engine,
            label: Mutex::new("default".into()),
            loaded: Mutex::default(),
            is_asleep: AtomicBool::default(),
            turns: Mutex::default(),
        });
        let done = || async { Json(json!({ "success": true })) };
        let router = Router::new()
            .route("/health", get(|| async {}))
            .route("/v1/models", get(|| async { Json(json!({ "data": [{ "id": "m", "max_model_len": 128 }] })) }))
            .route("/inference/v1/generate", post(|| async { StatusCode::FORBIDDEN }))
            .route("/v1/completions", post(complete))
            .route("/pause", post(done))
            .route("/resume", post(done))
            .route("/reset_prefix_cache", post(done))
            .route("/collective_rpc", post(reload))
            .route("/update_weight_version", post(name))
            .route("/weight_info", get(weight_info))
            .route("/is_sleeping", get(is_sleeping))
            .route("/sleep", post(sleep))
            .route("/wake_up", post(wake_up))
            .with_state(shared.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, _runtime: runtime }
    }

    /// What concerned its sleep since this was last called, and weights that were loaded, in order.
    pub fn turns(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.shared.turns.lock().unwrap())
    }

    pub fn put_asleep(&self) {
        self.shared.is_asleep.store(true, Ordering::SeqCst);
    }

    pub fn is_asleep(&self) -> bool {
        self.shared.is_asleep.load(Ordering::SeqCst)
    }

    /// The directories that it was given to read, in order.
    pub fn loaded(&self) -> Vec<PathBuf> {
        self.shared.loaded.lock().unwrap().clone()
    }
}

async fn is_sleeping(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({ "is_sleeping": shared.is_asleep.load(Ordering::SeqCst) }))
}

async fn sleep(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) {
    assert_eq!(query.as_deref(), Some("level=1"));
    shared.turn("sleep");
    shared.is_asleep.store(true, Ordering::SeqCst);
}

async fn wake_up(State(shared): State<Arc<Shared>>) {
    shared.turn("wake_up");
    shared.is_asleep.store(false, Ordering::SeqCst);
}

impl Shared {
    fn turn(&self, turn: &'static str) {
        self.turns.lock().unwrap().push(turn);
    }

    fn came(&self, request: &'static str) {
        if self.is_asleep.load(Ordering::SeqCst) {
            self.turn(request);
        }
    }
}

async fn reload(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    shared.turn("load");
    assert_eq!(body["method"], "reload_weights");
    let directory = PathBuf::from(body["kwargs"]["weights_path"].as_str().unwrap());
    let source = WeightsSource::Model(directory.clone());
    let loaded = shared.engine.sampler().load_weights(&NewWeights { version: WeightsVersion(0), source }).await;
    match loaded {
        Ok(()) => {
            shared.loaded.lock().unwrap().push(directory);
            Json(json!({ "results": [null] })).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn name(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Json<Value> {
    *shared.label.lock().unwrap() = body["new_version"].as_str().unwrap().to_owned();
    Json(json!({ "success": true }))
}

async fn weight_info(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({ "weight_version": *shared.label.lock().unwrap() }))
}

async fn complete(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    shared.came("a call of a host that sleeps");
    if body == json!({}) {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": { "message": "prompt is missing" } }))).into_response();
    }
    let list = |value: &Value| value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    if let Some(alternatives) = body["prompt_logprobs"].as_u64() {
        return prompt_logprobs(&shared, list(&body["prompt"]), alternatives as usize).await;
    }
    let number = |field: &str| body[field].as_f64().unwrap() as f32;
    let request = SampleRequest {
        sampling: SamplingParameters {
            temperature: number("temperature"),
            top_p: number("top_p"),
            top_k: body["top_k"].as_u64().map(|top_k| top_k as usize),
            ..SamplingParameters::default()
        },
        stop_tokens: list(&body["stop_token_ids"]),
        top_logprobs: body["logprobs"].as_u64().unwrap() as usize,
        ..SampleRequest::new(
            list(&body["prompt"]),
            body["max_tokens"].as_u64().unwrap() as usize,
            body["seed"].as_i64().unwrap().cast_unsigned(),
        )
    };
    let stream = shared.engine.sampler().sample(request).await.unwrap();
    let text = [&events(stream).await[..], &["data: [DONE]\n\n".to_owned()]].concat().concat();
    ([("content-type", "text/event-stream")], text).into_response()
}

/// The first place has nothing before it; the others have the prompt's own token beside the likeliest.
async fn prompt_logprobs(shared: &Shared, prompt: Vec<u32>, alternatives: usize) -> Response {
    let scores = shared.engine.sampler().score_prompt(&prompt, alternatives).await.unwrap();
    let mut places = vec![Value::Null];
    for (place, logprob) in scores.logprobs.iter().enumerate() {
        let likeliest = scores.likeliest.get(place).into_iter().flatten().copied();
        let tokens = likeliest.chain([(prompt[place + 1], *logprob)]);
        let entry = |(id, logprob): (u32, f32)| (id.to_string(), json!({ "logprob": logprob, "rank": 1 }));
        places.push(tokens.map(entry).collect());
    }
    let choice = json!({ "index": 0, "text": "", "finish_reason": "length", "prompt_logprobs": places });
    Json(json!({ "choices": [choice] })).into_response()
}

/// An answer's tokens, each an event, the last with its end.
async fn events(mut stream: SampleStream) -> Vec<String> {
    let mut events = Vec::new();
    loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => events.push(event(&[token], None)),
            SampleEvent::WeightsVersions(_) | SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(reason) => {
                events.push(event(&[], Some(if reason == SamplingEnd::StopToken { "stop" } else { "length" })));
                return events;
            }
        }
    }
}

fn event(tokens: &[SampledToken], finish_reason: Option<&str>) -> String {
    let name = |id: u32| format!("token_id:{id}");
    let tops = |token: &SampledToken| -> Value {
        token.top_logprobs.iter().map(|(id, logprob)| (name(*id), json!(logprob.max(-9999.0)))).collect()
    };
    let logprobs = json!({
        "tokens": tokens.iter().map(|token| name(token.id)).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|token| token.logprob).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(tops).collect::<Vec<_>>(),
    });
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    let choice =
        json!({ "index": 0, "text": "", "token_ids": ids, "finish_reason": finish_reason, "logprobs": logprobs });
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}
