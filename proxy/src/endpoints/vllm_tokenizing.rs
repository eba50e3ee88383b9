use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialects::openai::error::OpenAiError;
use crate::error::ProxyError;
use crate::models::served_model::SampledModel;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::caller::Caller;
use crate::requests::incoming_request::IncomingRequest;
use crate::requests::request_body::read_fields;

/// `GET /health`: whether the server is there.
pub(crate) async fn health() -> Response {
    ().into_response()
}

#[derive(Deserialize)]
struct TokenizeFields {
    model: Option<String>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    tools: Option<Vec<Value>>,
    add_generation_prompt: Option<bool>,
    return_token_strs: Option<bool>,
    add_special_tokens: Option<bool>,
}

/// `POST /tokenize`: the tokens of a text as Completions takes it, or of a conversation as Chat Completions renders it.
pub(crate) async fn tokenize(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let IncomingRequest { caller, mut fields, .. } = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    let tokenizing: TokenizeFields = read_fields(&mut fields)?;
    let model = model_named(&proxy, &caller, tokenizing.model.as_deref(), &fields).await?;
    let info = model.sampler.info().await.map_err(ProxyError::from)?;
    let (renderer, wants_texts) = (&model.renderer, tokenizing.return_token_strs == Some(true));
    let rendering = Arc::clone(renderer);
    let tokens = caller.render(&proxy.parts.templates, move || match (&tokenizing.prompt, &tokenizing.messages) {
        (Some(text), None) => Ok(rendering.tokenizer().encode_prompt(text, tokenizing.add_special_tokens.into())?),
        (None, Some(_)) if tokenizing.add_special_tokens == Some(true) => Err(ProxyError::invalid(
            "add_special_tokens",
            "add_special_tokens: the model's own template writes them around a conversation; leave it out",
        )),
        (None, Some(_)) if tokenizing.add_generation_prompt == Some(false) => Err(ProxyError::invalid(
            "add_generation_prompt",
            "add_generation_prompt: only prompts that the model continues are rendered here; leave it out",
        )),
        (None, Some(messages)) => {
            Ok(rendering.render_prompt(messages, tokenizing.tools.as_deref().unwrap_or_default())?.tokens)
        }
        _ => Err(ProxyError::invalid("prompt", "prompt: give a text as prompt, or a conversation as messages")),
    });
    let tokens = tokens.await??;
    let text = |token: &u32| renderer.tokenizer().decode(&[*token]);
    let texts: Option<Vec<String>> = wants_texts.then(|| tokens.iter().map(text).collect());
    let max_model_len = info.context_length;
    Ok(Json(json!({ "count": tokens.len(), "max_model_len": max_model_len, "tokens": tokens, "token_strs": texts }))
        .into_response())
}

#[derive(Deserialize)]
struct DetokenizeFields {
    model: Option<String>,
    tokens: Vec<u32>,
}

/// `POST /detokenize`: the text of tokens. Bytes that are no text become replacement characters.
pub(crate) async fn detokenize(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let IncomingRequest { caller, mut fields, .. } = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    let tokenizing: DetokenizeFields = read_fields(&mut fields)?;
    let model = model_named(&proxy, &caller, tokenizing.model.as_deref(), &fields).await?;
    let tokenizer = model.renderer.tokenizer();
    let text = caller.size.work(&proxy.parts.large_requests, || {
        let unknown = tokenizing.tokens.iter().find(|token| tokenizer.id_to_bytes(**token).is_none());
        match unknown {
            Some(token) => Err(ProxyError::invalid("tokens", format!("tokens: the tokenizer has no token {token}"))),
            None => Ok(tokenizer.decode(&tokenizing.tokens)),
        }
    });
    Ok(Json(json!({ "prompt": text.await?? })).into_response())
}

/// The model that a request names, or the only one, told what the request has for its template.
async fn model_named(
    proxy: &Proxy,
    caller: &Caller,
    name: Option<&str>,
    fields: &Map<String, Value>,
) -> Result<SampledModel, ProxyError> {
    let models = &proxy.parts.models;
    let model = match name {
        Some(name) => models.called(name, &caller.key)?.model,
        None => models.only_sampled()?.clone(),
    };
    Ok(models.with_template_arguments(&model, fields, || caller.target.owner()).await?.model)
}
