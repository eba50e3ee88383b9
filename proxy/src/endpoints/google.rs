use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::call::answer_request::answer;
use crate::dialects::google::conversation::{CALLS_AND_RESULTS, COUNTED_CALLS_AND_RESULTS};
use crate::dialects::google::error::response;
use crate::dialects::google::generate_request::{CountedPrompt, read, read_count};
use crate::dialects::google::reply::StreamForm;
use crate::error::ProxyError;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::caller::Caller;
use crate::requests::exact_json::ExactValues;
use crate::requests::google_request::Method;
use crate::requests::incoming_request::IncomingRequest;

/// The path of a model with its method, which may be below an attempt's. A model's name may be several segments.
#[derive(Debug, Deserialize)]
pub(crate) struct MethodPath {
    model: String,
    #[serde(flatten)]
    call: CallPath,
}

#[derive(Default, Deserialize)]
struct StreamQuery {
    alt: Option<String>,
}

/// `POST /v1beta/models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`, also below `/v1` and an
/// attempt's path.
pub(crate) async fn call(
    State(proxy): State<Proxy>,
    Path(MethodPath { model, call }): Path<MethodPath>,
    request: Request,
) -> Response {
    let Some((model, method)) = Method::of_path(&model) else {
        let path = request.uri().path().to_owned();
        return response(&ProxyError::UnknownRoute { method: request.method().to_string(), path, right: None });
    };
    let model = model.to_owned();
    let answered = match method {
        Method::GenerateContent => generate(&proxy, call, request, model, None).await,
        Method::StreamGenerateContent => {
            let form = stream_form(&request);
            match form {
                Ok(form) => generate(&proxy, call, request, model, Some(form)).await,
                Err(error) => Err(error.into()),
            }
        }
        Method::CountTokens => count(&proxy, call, request, &model).await,
    };
    answered.unwrap_or_else(|error| response(&error))
}

/// How the client wants a stream: as events, or as an array, which is Google's default.
fn stream_form(request: &Request) -> Result<StreamForm, ProxyError> {
    let query = Query::<StreamQuery>::try_from_uri(request.uri());
    match query.map(|Query(StreamQuery { alt })| alt).unwrap_or_default().as_deref() {
        None | Some("json") => Ok(StreamForm::Array),
        Some("sse") => Ok(StreamForm::Events),
        Some(other) => Err(ProxyError::invalid("alt", format!("alt is `{other}`, but must be sse or json"))),
    }
}

async fn generate(
    proxy: &Proxy,
    path: CallPath,
    request: Request,
    model: String,
    stream: Option<StreamForm>,
) -> Result<Response, Arc<ProxyError>> {
    let IncomingRequest { caller, fields, body, .. } = incoming(proxy, path, request, &model).await?;
    let read = || read(fields, model, stream, &ExactValues::read(&body, &CALLS_AND_RESULTS));
    let request = caller.size.work(&proxy.parts.large_requests, read).await??;
    let mut answered = answer(&proxy.parts, caller, request).await?;
    if stream == Some(StreamForm::Array) {
        answered.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(answered)
}

/// How long the prompt of such a request is.
async fn count(proxy: &Proxy, path: CallPath, request: Request, model: &str) -> Result<Response, Arc<ProxyError>> {
    let IncomingRequest { caller, fields, body, .. } = incoming(proxy, path, request, model).await?;
    let turns = &proxy.parts.large_requests;
    let read = || read_count(fields, model, &ExactValues::read(&body, &COUNTED_CALLS_AND_RESULTS));
    let CountedPrompt { messages, tools, extra } = caller.size.work(turns, read).await??;
    let models = &proxy.parts.models;
    let called = models.called(model, &caller.key)?.model;
    let model = models.with_template_arguments(&called, &extra, || caller.target.owner()).await?.model;
    let render = move || model.renderer.render_prompt(&messages, &tools);
    let rendered = caller.render(&proxy.parts.templates, render).await?;
    let rendered = rendered.map_err(|error| ProxyError::from(error).about_prompt("contents"))?;
    Ok(axum::Json(json!({ "totalTokens": rendered.tokens.len() })).into_response())
}

/// A request for that model, which must be sampled here: no upstream speaks this dialect.
async fn incoming(proxy: &Proxy, path: CallPath, request: Request, model: &str) -> Result<IncomingRequest, ProxyError> {
    let caller = Caller::new(path, &request)?;
    proxy.parts.models.called(model, &caller.key)?;
    IncomingRequest::of_model(proxy.parts.intake(), caller, request, model).await
}
