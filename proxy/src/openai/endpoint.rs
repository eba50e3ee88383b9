use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use fulgurite_backends::{BackendError, SamplerInfo, derive_seed};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::reply::{Reply, ReplyState};
use super::request::{self, Prompt, Wanted};
use super::{chat_request, completion_request};
use crate::attribution::{self, Attribution, CallPath, PathIds};
use crate::call::{self, Call, CallEvent, Reading};
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::message_attributes::{add_message, add_tools};
use crate::response_body::{StreamedBody, WholeBody};
use crate::{Proxy, ServedModel};

/// `POST /v1/chat/completions`, also below an attempt's path.
pub(crate) async fn chat_completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, ProxyError> {
    let body = request::parse(&read_body(request.into_body(), &proxy).await?)?;
    answer(&proxy, Caller::of(path), chat_request::read(body)?).await
}

/// `POST /v1/completions`, also below an attempt's path.
pub(crate) async fn completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, ProxyError> {
    let body = request::parse(&read_body(request.into_body(), &proxy).await?)?;
    answer(&proxy, Caller::of(path), completion_request::read(body)?).await
}

pub(crate) async fn read_body(body: Body, proxy: &Proxy) -> Result<Bytes, ProxyError> {
    let limit = proxy.shared.options.body_limit;
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

/// Whose call it is.
pub(crate) struct Caller {
    /// If its path says.
    pub(crate) ids: Option<PathIds>,
    /// Whether the attempt is made if it is not there.
    pub(crate) begins_attempt: bool,
    /// If the gateway counts it.
    pub(crate) in_flight: Option<InFlight>,
}

impl Caller {
    fn of(path: CallPath) -> Self {
        Self { ids: path.ids(), begins_attempt: false, in_flight: None }
    }
}

/// Answers a checked request.
pub(crate) async fn answer(proxy: &Proxy, caller: Caller, wanted: Wanted) -> Result<Response, ProxyError> {
    let model = proxy.model(&wanted.model)?.clone();
    let info = model.sampler.info().await?;
    let prompt = prompt_tokens(&wanted, &model, &info)?;
    let token_ids =
        wanted.return_token_ids || (caller.ids.is_some() && proxy.shared.options.token_ids_on_attributed_path);
    let call = prepare(proxy, caller, &wanted, &model, &info, prompt).await?;
    let reply = Reply {
        shape: wanted.shape,
        id: call.generation_id.clone(),
        created: call::now() as u64,
        tokenizer: Arc::clone(model.renderer.tokenizer()),
        model: model.name,
        logprobs: wanted.asked.logprobs || token_ids,
        prompt_token_ids: token_ids.then(|| call.prompt.clone()),
        include_usage: wanted.include_usage,
        state: ReplyState::default(),
    };
    let events = call::start(proxy, call).await?;
    if wanted.stream {
        let mut response = Response::new(Body::new(StreamedBody::new(events, reply)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    whole(events, reply).await
}

/// The prompt's tokens, which leave room for an answer.
fn prompt_tokens(wanted: &Wanted, model: &ServedModel, info: &SamplerInfo) -> Result<Vec<u32>, ProxyError> {
    let prompt = match &wanted.prompt {
        Prompt::Messages { messages, tools } => model.renderer.render_prompt(messages, tools)?.tokens,
        Prompt::Text(text) => model.renderer.tokenizer().encode_with_specials(text)?,
        Prompt::Tokens(tokens) => tokens.clone(),
    };
    let field = wanted.shape.prompt_field();
    if let Some(unknown) = prompt.iter().find(|token| **token as usize >= info.vocabulary_size) {
        let known = info.vocabulary_size;
        return Err(ProxyError::invalid(field, format!("{field}: there is no token {unknown}; ids are below {known}")));
    }
    if prompt.len() >= info.context_length {
        let too_long = BackendError::PromptTooLong { prompt_tokens: prompt.len(), context_length: info.context_length };
        return Err(ProxyError::InvalidRequest {
            message: too_long.to_string(),
            parameter: Some(field.to_owned()),
            code: Some("context_length_exceeded"),
        });
    }
    Ok(prompt)
}

/// Finds whose call it is and what it asks of the sampler.
async fn prepare(
    proxy: &Proxy,
    caller: Caller,
    wanted: &Wanted,
    model: &ServedModel,
    info: &SamplerInfo,
    prompt: Vec<u32>,
) -> Result<Call, ProxyError> {
    let generation_id = format!("{}-{}", wanted.shape.id_prefix(), uuid::Uuid::now_v7().simple());
    let attribution = match &caller.ids {
        Some(ids) => {
            if caller.begins_attempt {
                proxy.shared.store.open_attempt(&ids.rollout_id, &ids.attempt_id).await?;
            }
            Some(attribution::resolve(proxy, ids).await?)
        }
        None => None,
    };
    let seed = match &attribution {
        Some(Attribution { rollout_id, attempt_id, rollout_seed }) => {
            let index = proxy.next_call_index(rollout_id, attempt_id).await?;
            // A client's own seed is one more part: a group whose agents all send the same still differs.
            let client_seed = wanted.seed.map(|seed| seed.to_string()).unwrap_or_default();
            derive_seed(*rollout_seed, &[&index.to_string(), &client_seed])
        }
        None => match wanted.seed {
            Some(seed) => seed.cast_unsigned(),
            None => derive_seed(proxy.shared.options.seed, &[&generation_id]),
        },
    };
    let asked = &wanted.asked;
    let room = info.context_length - prompt.len();
    Ok(Call {
        generation_id,
        max_tokens: asked.max_tokens.unwrap_or(room).min(room),
        sampling: asked.sampling.clone(),
        top_logprobs: asked.top_logprobs,
        stop_strings: asked.stop_strings.clone(),
        reading: match &wanted.prompt {
            Prompt::Messages { tools, .. } => Reading::Message { tools: tools.clone() },
            Prompt::Text(_) | Prompt::Tokens(_) => Reading::Text,
        },
        attributes: attributes(wanted),
        span_name: wanted.shape.span_name(),
        model: model.clone(),
        attribution,
        request_digest: wanted.digest.clone(),
        prompt,
        seed,
        in_flight: caller.in_flight,
    })
}

fn attributes(wanted: &Wanted) -> Map<String, Value> {
    let asked = &wanted.asked;
    let mut attributes = Map::new();
    let mut set = |key: &str, value: Value| attributes.insert(key.to_owned(), value);
    set("gen_ai.operation.name", json!(wanted.shape.operation_name()));
    set("gen_ai.provider.name", json!("fulgurite"));
    set("gen_ai.request.model", json!(wanted.model));
    set("gen_ai.request.temperature", json!(asked.sampling.temperature));
    set("gen_ai.request.top_p", json!(asked.sampling.top_p));
    if let Some(top_k) = asked.sampling.top_k {
        set("gen_ai.request.top_k", json!(top_k));
    }
    if let Some(max_tokens) = asked.max_tokens {
        set("gen_ai.request.max_tokens", json!(max_tokens));
    }
    set("gen_ai.request.is_stream", json!(wanted.stream));
    if !wanted.extra.is_empty() {
        set("fulgurite.request.extra", json!(json!(wanted.extra).to_string()));
    }
    if let Prompt::Messages { messages, tools } = &wanted.prompt {
        for (index, message) in messages.iter().enumerate() {
            add_message(&mut attributes, &format!("gen_ai.prompt.{index}"), message);
        }
        add_tools(&mut attributes, tools);
    }
    attributes
}

/// The answer in one piece.
async fn whole(mut events: mpsc::Receiver<CallEvent>, mut reply: Reply) -> Result<Response, ProxyError> {
    let finished = loop {
        match events.recv().await {
            Some(CallEvent::Token(taken)) => reply.take(taken.token, taken.is_text),
            Some(CallEvent::Finished(finished)) => break finished,
            Some(CallEvent::Failed(error)) => return Err(error),
            None => {
                let message = "the call ended without an answer".to_owned();
                return Err(BackendError::Internal { message }.into());
            }
        }
    };
    let value = reply.whole(&finished);
    let body = WholeBody::new(Bytes::from(value.to_string()), finished.delivered);
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
