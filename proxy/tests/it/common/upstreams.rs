//! A proxy over real sockets that passes calls on to a server that plays scripts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fulgurite_api::RouteNeeds;
use fulgurite_backends::{ReplicaOptions, Upstream, UpstreamDialect, UpstreamOptions};
use fulgurite_proxy::{Proxy, ProxyOptions, ServedModel, UpstreamModel};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{Generation, NewRollout, Span, SpanFilter};
use serde_json::{Value, json};

use super::{generation_when, generations};
use crate::scripted::{ScriptedReply, ScriptedServer, Step};

pub const KEY: &str = "sk-of-the-upstream";

/// A proxy whose models are all passed on to one scripted server: `judge` in OpenAI's dialect, where it is called
/// `gpt-x`, and `claude` in Anthropic's.
pub struct Setup {
    pub url: String,
    pub store: Store,
    pub client: reqwest::Client,
    pub server: ScriptedServer,
    pub scripts: Arc<Mutex<VecDeque<ScriptedReply>>>,
    _directory: tempfile::TempDir,
}

pub fn upstream_model(name: &str, upstream_name: &str, dialect: UpstreamDialect, urls: Vec<String>) -> ServedModel {
    let options = UpstreamOptions {
        urls,
        dialect,
        api_key: Some(KEY.to_owned()),
        key_header: None,
        replicas: ReplicaOptions::default(),
    };
    let upstream = Arc::new(Upstream::new(&options).unwrap());
    ServedModel::Upstream(UpstreamModel { name: name.into(), upstream_name: upstream_name.into(), upstream })
}

fn models(server: &ScriptedServer) -> Vec<ServedModel> {
    let urls = || vec![server.url.clone()];
    vec![
        upstream_model("judge", "gpt-x", UpstreamDialect::OpenAi, urls()),
        upstream_model("claude", "claude", UpstreamDialect::Anthropic, urls()),
    ]
}

impl Setup {
    pub async fn new(replies: Vec<ScriptedReply>) -> Self {
        let scripts = Arc::new(Mutex::new(VecDeque::from(replies)));
        let played = scripts.clone();
        let server = ScriptedServer::start(move |_| {
            played.lock().unwrap().pop_front().unwrap_or_else(|| ScriptedReply::Json(599, json!("no script is left")))
        })
        .await;
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let url = serve(&store, models(&server)).await;
        Self { url, store, client: reqwest::Client::new(), server, scripts, _directory: directory }
    }

    /// Another process of the server on the same store; its URL.
    pub async fn another_process(&self) -> String {
        serve(&self.store, models(&self.server)).await
    }

    pub fn play(&self, reply: ScriptedReply) {
        self.scripts.lock().unwrap().push_back(reply);
    }

    /// A new attempt's rollout and the base URL of its agent.
    pub async fn attempt(&self) -> (String, String) {
        self.attempt_with(json!({})).await
    }

    /// The same, of a rollout with that metadata.
    pub async fn attempt_with(&self, metadata: Value) -> (String, String) {
        let rollout = NewRollout { metadata: metadata.as_object().cloned(), ..NewRollout::default() };
        let started = self.store.rollouts().start(rollout, None).await.unwrap();
        let (rollout, attempt) = (started.rollout.rollout_id, started.attempt.attempt_id);
        (rollout.clone(), format!("{}/rollout/{rollout}/attempt/{attempt}/v1", self.url))
    }

    pub async fn post(&self, url: &str, body: &Value) -> reqwest::Response {
        self.client.post(url).json(body).send().await.unwrap()
    }

    pub async fn generations(&self) -> Vec<Generation> {
        generations(&self.store).await
    }

    /// The only generation, once what the server still writes about it is written.
    pub async fn generation_when(&self, holds: impl Fn(&Generation) -> bool) -> Generation {
        generation_when(&self.store, holds).await
    }

    pub async fn spans(&self, rollout: &str) -> Vec<Span> {
        let filter = SpanFilter { rollout_id: rollout.to_owned(), ..SpanFilter::default() };
        self.store.spans().query(&filter).await.unwrap().items
    }

    pub async fn attributes(&self, rollout: &str) -> Value {
        json!(self.spans(rollout).await.last().unwrap().attributes)
    }
}

/// Serves these models, and gives the URL.
pub async fn serve(store: &Store, models: Vec<ServedModel>) -> String {
    serve_proxy(Proxy::new(store.clone(), models, ProxyOptions::default()).unwrap()).await
}

/// Serves a proxy, and gives the URL.
pub async fn serve_proxy(proxy: Proxy) -> String {
    let router = fulgurite_proxy::routes(proxy, &mut RouteNeeds::default()).fallback(fulgurite_proxy::unknown_route);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// An answer with headers of its own.
pub fn with_headers(status: u16, headers: &str, body: &str) -> ScriptedReply {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
    ScriptedReply::Raw(vec![Step::Bytes([head, body.to_owned()].concat().into_bytes())])
}

/// An event under its own name, as Anthropic and Responses write it.
pub fn named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

pub fn bytes(text: impl Into<String>) -> Step {
    Step::Bytes(text.into().into_bytes())
}

pub fn chat() -> Value {
    json!({ "model": "judge", "messages": [{ "role": "user", "content": "Say you are 17." }] })
}

pub fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// A chunk of a chat's only answer.
pub fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-x-1", "choices": [
        { "index": 0, "delta": delta, "finish_reason": finish_reason },
    ] })
}

pub fn chat_answer(id: &str) -> Value {
    json!({ "id": id, "object": "chat.completion", "created": 7, "model": "gpt-x-1", "choices": [{
        "index": 0,
        "message": { "role": "assistant", "content": "I am 17.", "refusal": null },
        "finish_reason": "stop",
    }], "usage": { "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14 }, "smell": "fresh" })
}
