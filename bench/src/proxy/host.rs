use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Json, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use fulgurite_renderers::Tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::arguments::ProxyHostArguments;
use super::script::{MODEL, PROMPT_TOKENS, SAMPLED_TOKENS};
use crate::render::conversation::Writer;

/// Ends an answer of the made model.
pub const STOP_TOKEN: &str = "<|im_end|>";
/// Tokens that prompt and answer may have together.
const CONTEXT_LENGTH: usize = 32_768;
const LOGPROB: f64 = -0.25;
const CREATED: u64 = 1_795_256_016;

/// `fulgurite-bench proxy-host`: a model host that answers every request at once with the same tokens, on the routes
/// that vLLM has, in its shape.
pub async fn bench_proxy_host(arguments: ProxyHostArguments) -> Result<()> {
    let script = Script::new(&Tokenizer::open(&arguments.model)?)?;
    let router = Router::new()
        .route("/health", get(async || ()))
        .route("/v1/models", get(models))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
        .with_state(Arc::new(script));
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let url = format!("http://{}", listener.local_addr()?);
    // In one step, so that nobody reads half of it.
    let fresh = arguments.ready_file.with_extension("new");
    std::fs::write(&fresh, json!({ "url": url }).to_string())?;
    std::fs::rename(&fresh, &arguments.ready_file)?;
    // Whether a connection can be told to send at once is of no matter to what it sends.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    axum::serve(listener, router).await.context("the host failed")
}

/// The one answer.
struct Script {
    tokens: Vec<u32>,
    /// What each token says.
    texts: Vec<String>,
    /// The answer of a chat, whole and in the events of a stream: they are the same for every request.
    chat: Bytes,
    /// The same with its tokens, as a gateway asks for them.
    chat_with_tokens: Bytes,
    chat_events: Vec<Bytes>,
    /// The events of a completion after its first, which tells the prompt again, by how many tokens they tell.
    later_events: Mutex<HashMap<usize, Vec<Bytes>>>,
}

/// The fields of a request that the answer depends on.
#[derive(Deserialize)]
struct HostRequest {
    #[serde(default)]
    prompt: Vec<u32>,
    max_tokens: Option<usize>,
    #[serde(default)]
    stream: bool,
    /// Tokens of an event behind the first.
    stream_interval: Option<usize>,
    /// Of a chat: whether it is told of its tokens, with their logprobs.
    #[serde(default)]
    return_token_ids: bool,
}

impl Script {
    fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let mut tokens = tokenizer.encode_ordinary(&Writer::new().text(SAMPLED_TOKENS))?;
        tokens.truncate(SAMPLED_TOKENS - 1);
        let mut texts: Vec<String> = tokens.iter().map(|token| tokenizer.decode(&[*token])).collect();
        tokens.push(tokenizer.token_to_id(STOP_TOKEN).context("the model has no end of a turn")?);
        texts.push(String::new());
        let message = json!({ "role": "assistant", "content": texts.concat(), "tool_calls": [] });
        let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" });
        let chat = Bytes::from(chat_reply("chat.completion", &choice).to_string());
        let chat_with_tokens = chat_with_tokens(choice, &tokens, &texts);
        let first = json!({ "role": "assistant", "content": "" });
        let deltas = std::iter::once(first).chain(texts.iter().map(|text| json!({ "content": text })));
        let chat_events = deltas.enumerate().map(|(place, delta)| {
            let end = (place == SAMPLED_TOKENS).then_some("stop");
            let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": end });
            event(&chat_reply("chat.completion.chunk", &choice))
        });
        let chat_events = chat_events.chain([Bytes::from_static(END)]).collect();
        Ok(Self { tokens, texts, chat, chat_with_tokens, chat_events, later_events: Mutex::default() })
    }

    /// A choice of `/v1/completions` with the tokens of some places.
    fn choice(&self, places: Range<usize>, prompt: &[u32], end: Option<&str>) -> Value {
        let tokens = &self.tokens[places.clone()];
        let names: Vec<String> = tokens.iter().map(|token| format!("token_id:{token}")).collect();
        let tops: Vec<Value> = names.iter().map(|name| json!({ name: LOGPROB })).collect();
        json!({
            "index": 0, "text": self.texts[places.clone()].concat(), "finish_reason": end, "stop_reason": null,
            "token_ids": tokens, "prompt_token_ids": (places.start == 0).then_some(prompt),
            "logprobs": {
                "text_offset": vec![0; tokens.len()], "token_logprobs": vec![LOGPROB; tokens.len()], "tokens": names,
                "top_logprobs": tops,
            },
        })
    }

    /// The events of a stream: one for the first token, and one for as many of the others as are asked for together. Made
    /// beforehand where they can be: a host's own work would be counted as the proxy's, of which it asks more than of who
    /// calls it directly.
    fn events(&self, request: &HostRequest) -> Vec<Bytes> {
        let (count, end) = self.end(request);
        let interval = request.stream_interval.unwrap_or(1).max(1);
        let first = 0..count.min(1);
        let mut events = vec![self.event(first, &request.prompt, count, end)];
        let later = || {
            let from = (1..count).step_by(interval);
            from.map(|from| self.event(from..(from + interval).min(count), &[], count, end)).collect()
        };
        match count {
            SAMPLED_TOKENS => {
                let mut made = self.later_events.lock().unwrap_or_else(PoisonError::into_inner);
                events.extend_from_slice(made.entry(interval).or_insert_with(later));
            }
            _ => events.extend::<Vec<Bytes>>(later()),
        }
        events.push(Bytes::from_static(END));
        events
    }

    fn event(&self, places: Range<usize>, prompt: &[u32], count: usize, end: &str) -> Bytes {
        let end = (places.end == count).then_some(end);
        event(&completion(&self.choice(places, prompt, end)))
    }

    /// How many tokens are answered, and why no more.
    fn end(&self, request: &HostRequest) -> (usize, &'static str) {
        match request.max_tokens {
            Some(limit) if limit < self.tokens.len() => (limit, "length"),
            _ => (self.tokens.len(), "stop"),
        }
    }
}

const END: &[u8] = b"data: [DONE]\n\n";

fn event(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

fn completion(choice: &Value) -> Value {
    json!({ "id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": MODEL, "choices": [choice],
        "usage": null })
}

fn chat_reply(object: &str, choice: &Value) -> Value {
    json!({ "id": "chatcmpl-1", "object": object, "created": CREATED, "model": MODEL, "choices": [choice],
        "usage": null })
}

/// The answer of a chat with its tokens and as many of the prompt, which is not looked at, as prompts have.
fn chat_with_tokens(mut choice: Value, tokens: &[u32], texts: &[String]) -> Bytes {
    let entry =
        |text: &String| json!({ "token": text, "logprob": LOGPROB, "bytes": text.as_bytes(), "top_logprobs": [] });
    choice["logprobs"] = json!({ "content": texts.iter().map(entry).collect::<Vec<_>>() });
    choice["token_ids"] = json!(tokens);
    let mut reply = chat_reply("chat.completion", &choice);
    reply["prompt_token_ids"] = json!(vec![tokens[0]; PROMPT_TOKENS]);
    Bytes::from(reply.to_string())
}

async fn models() -> Json<Value> {
    Json(json!({ "object": "list", "data": [{ "id": MODEL, "object": "model", "max_model_len": CONTEXT_LENGTH }] }))
}

async fn completions(State(script): State<Arc<Script>>, Json(request): Json<HostRequest>) -> Response {
    if request.stream {
        return stream(script.events(&request));
    }
    let (count, end) = script.end(&request);
    Json(completion(&script.choice(0..count, &request.prompt, Some(end)))).into_response()
}

async fn chat_completions(State(script): State<Arc<Script>>, Json(request): Json<HostRequest>) -> Response {
    match request.stream {
        true => stream(script.chat_events.clone()),
        false => {
            let chat = if request.return_token_ids { &script.chat_with_tokens } else { &script.chat };
            ([(CONTENT_TYPE, "application/json")], chat.clone()).into_response()
        }
    }
}

/// A stream whose events leave one by one.
fn stream(events: Vec<Bytes>) -> Response {
    let body = Body::from_stream(futures::stream::iter(events.into_iter().map(Ok::<_, Infallible>)));
    ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], body).into_response()
}
