use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::json;

use crate::call::answer_request::answer;
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::vllm::generate_request::read;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::incoming_request::IncomingRequest;

/// `POST /inference/v1/generate`, also below an attempt's path: what the model samples after the very tokens that a client
/// gives. Its shapes are those of vLLM 0.32, <https://docs.vllm.ai>.
pub(crate) async fn generate(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let mut incoming = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    let models = &proxy.parts.models;
    if !incoming.fields.contains_key("model") {
        let model = models.only_sampled()?.name.clone();
        incoming.set([("model", json!(model))]);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let name = fields.get("model").and_then(|model| model.as_str()).unwrap_or_default();
    let called = models.called(name, &caller.key);
    let stop_tokens = called.map(|called| called.model.renderer.stop_tokens().to_vec()).unwrap_or_default();
    let request = caller.size.work(&proxy.parts.large_requests, || read(fields, &stop_tokens)).await??;
    Ok(answer(&proxy.parts, caller, request).await?)
}
