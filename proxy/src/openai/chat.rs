use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fulgurite_backends::derive_seed;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::request::{self, Asked, ChatRequest};
use super::response::{Header, completion, token_logprob};
use super::stream::ChatStream;
use crate::attribution::{self, Attribution, PathIds};
use crate::call::{self, Call, CallEvent};
use crate::error::ProxyError;
use crate::response_body::{StreamedBody, WholeBody};
use crate::{Proxy, ServedModel};

/// The name that Agent-lightning's adapters look for.
const SPAN_NAME: &str = "openai.chat.completion";

/// `POST /v1/chat/completions`: a call that says nothing of whose it is.
pub(crate) async fn complete(State(proxy): State<Proxy>, request: Request) -> Result<Response, ProxyError> {
    answer(proxy, None, request.into_body()).await
}

/// `POST /rollout/{rollout_id}/attempt/{attempt_id}/v1/chat/completions`.
pub(crate) async fn complete_in_attempt(
    State(proxy): State<Proxy>,
    Path(ids): Path<PathIds>,
    request: Request,
) -> Result<Response, ProxyError> {
    answer(proxy, Some(ids), request.into_body()).await
}

async fn answer(proxy: Proxy, ids: Option<PathIds>, body: Body) -> Result<Response, ProxyError> {
    let body = read_body(body, proxy.shared.options.body_limit).await?;
    let (request, digest) = request::parse(&body)?;
    let asked = request.check()?;
    let model = proxy.model(&request.model)?.clone();
    let prompt = model.renderer.render_prompt(&request.messages, &[])?.tokens;
    let context_length = model.sampler.info().context_length;
    if prompt.len() >= context_length {
        let prompt_tokens = prompt.len();
        return Err(fulgurite_backends::BackendError::PromptTooLong { prompt_tokens, context_length }.into());
    }
    let call = prepare(&proxy, ids, &request, &asked, digest, &model, prompt).await?;

    let header = Header { id: call.generation_id.clone(), created: call::now() as u64, model: model.name.clone() };
    let token_ids = request.return_token_ids.unwrap_or(false).then(|| call.prompt.clone());
    let events = call::start(&proxy, call).await?;
    if request.stream.unwrap_or(false) {
        let stream = ChatStream {
            header,
            tokenizer: Arc::clone(model.renderer.tokenizer()),
            logprobs: asked.logprobs,
            token_ids,
            include_usage: request.stream_options.as_ref().is_some_and(|options| options.include_usage),
            waiting_logprobs: Vec::new(),
            waiting_ids: Vec::new(),
            begun: false,
        };
        let mut response = Response::new(Body::new(StreamedBody::new(events, stream)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    whole(events, header, &model, &asked, token_ids).await
}

async fn read_body(body: Body, limit: usize) -> Result<Bytes, ProxyError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ProxyError::BodyTooLarge { limit }),
        Err(error) => Err(ProxyError::InvalidRequest {
            message: format!("the request body could not be read: {error}"),
            parameter: None,
            code: None,
        }),
    }
}

/// Finds whose call it is and what it asks of the sampler.
async fn prepare(
    proxy: &Proxy,
    ids: Option<PathIds>,
    request: &ChatRequest,
    asked: &Asked,
    request_digest: String,
    model: &ServedModel,
    prompt: Vec<u32>,
) -> Result<Call, ProxyError> {
    let generation_id = format!("chatcmpl-{}", uuid::Uuid::now_v7().simple());
    let attribution = match &ids {
        Some(ids) => Some(attribution::resolve(proxy, ids).await?),
        None => None,
    };
    let seed = match &attribution {
        Some(Attribution { rollout_id, attempt_id, rollout_seed }) => {
            let index = proxy.next_call_index(rollout_id, attempt_id).await?;
            // A client's own seed is one more part: a group whose agents all send the same still differs.
            let client_seed = request.seed.map(|seed| seed.to_string()).unwrap_or_default();
            derive_seed(*rollout_seed, &[&index.to_string(), &client_seed])
        }
        None => match request.seed {
            Some(seed) => seed.cast_unsigned(),
            None => derive_seed(proxy.shared.options.seed, &[&generation_id]),
        },
    };
    let room = model.sampler.info().context_length - prompt.len();
    Ok(Call {
        generation_id,
        max_tokens: asked.max_tokens.unwrap_or(room).min(room),
        sampling: asked.sampling.clone(),
        top_logprobs: asked.top_logprobs,
        stop_strings: asked.stop_strings.clone(),
        attributes: attributes(request, asked),
        span_name: SPAN_NAME,
        model: model.clone(),
        attribution,
        request_digest,
        prompt,
        seed,
    })
}

fn attributes(request: &ChatRequest, asked: &Asked) -> Map<String, Value> {
    let mut attributes = Map::new();
    let mut set = |key: &str, value: Value| attributes.insert(key.to_owned(), value);
    set("gen_ai.operation.name", json!("chat"));
    set("gen_ai.provider.name", json!("fulgurite"));
    set("gen_ai.request.model", json!(request.model));
    set("gen_ai.request.temperature", json!(asked.sampling.temperature));
    set("gen_ai.request.top_p", json!(asked.sampling.top_p));
    if let Some(top_k) = asked.sampling.top_k {
        set("gen_ai.request.top_k", json!(top_k));
    }
    if let Some(max_tokens) = asked.max_tokens {
        set("gen_ai.request.max_tokens", json!(max_tokens));
    }
    set("gen_ai.request.is_stream", json!(request.stream.unwrap_or(false)));
    for (index, message) in request.messages.iter().enumerate() {
        set(&format!("gen_ai.prompt.{index}.role"), json!(message.role));
        let content = match &message.content {
            Some(fulgurite_renderers::Content::Text(text)) => json!(text),
            // An attribute is a string or a list of one kind, so parts go in as JSON text.
            other => json!(json!(other).to_string()),
        };
        set(&format!("gen_ai.prompt.{index}.content"), content);
    }
    if !request.extra.is_empty() {
        set("fulgurite.request.extra", json!(json!(request.extra).to_string()));
    }
    attributes
}

/// The answer in one piece.
async fn whole(
    mut events: mpsc::Receiver<CallEvent>,
    header: Header,
    model: &ServedModel,
    asked: &Asked,
    prompt_token_ids: Option<Vec<u32>>,
) -> Result<Response, ProxyError> {
    let mut content = String::new();
    let mut logprobs = Vec::new();
    let mut token_ids = Vec::new();
    let finished = loop {
        match events.recv().await {
            Some(CallEvent::Token { token, text, is_text }) => {
                content.push_str(&text);
                if asked.logprobs && is_text {
                    logprobs.push(token_logprob(&token, model.renderer.tokenizer()));
                }
                token_ids.push(token.id);
            }
            Some(CallEvent::Finished(finished)) => break finished,
            Some(CallEvent::Failed(error)) => return Err(error),
            None => {
                let message = "the call ended without an answer".to_owned();
                return Err(fulgurite_backends::BackendError::Internal { message }.into());
            }
        }
    };
    content.push_str(&finished.text);
    let mut value = completion(&header, &content, asked.logprobs.then_some(logprobs), &finished);
    if let Some(prompt) = prompt_token_ids {
        value["prompt_token_ids"] = json!(prompt);
        value["choices"][0]["token_ids"] = json!(token_ids);
    }
    let body = WholeBody::new(Bytes::from(value.to_string()), finished.delivered);
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response.into_response())
}
