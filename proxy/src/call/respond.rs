use std::sync::Arc;

use axum::response::Response;

use crate::error::ProxyError;
use crate::models::served_model::SampledModel;
use crate::observe::call_facts::CallFacts;
use crate::parts::Parts;
use crate::reply::http_response;
use crate::reply::reply_writer::ReplyContext;
use crate::requests::model_request::ModelRequest;
use crate::retries::request_log::Joined;

/// A request whose answers are being sampled, and its client, who listens.
pub(crate) struct AnsweredRequest {
    pub(crate) request: ModelRequest,
    pub(crate) model: SampledModel,
    /// Whether the client gets token ids and logprobs.
    pub(crate) token_ids: bool,
    pub(crate) joined: Joined,
    pub(crate) facts: Arc<CallFacts>,
}

/// Sends the answers to the client, as they are sampled or when they have ended.
pub(crate) async fn respond(parts: &Parts, answered: AnsweredRequest) -> Result<Response, Arc<ProxyError>> {
    let AnsweredRequest { request, model, token_ids, joined, facts } = answered;
    let (choices, keep_alive) = (request.options.choices, parts.options.keep_alive);
    facts.prompt_tokens.get_or_init(|| joined.prompt.len());
    facts.is_answered_in(&joined.request.attempt);
    let writer = request.reply.writer(ReplyContext {
        id: joined.request.reply_id.clone(),
        created: joined.request.created,
        tokenizer: Arc::clone(model.renderer.tokenizer()),
        model: model.name.clone(),
        prompt: joined.prompt,
        logprobs: request.options.logprobs || token_ids,
        token_ids,
        choices,
    });
    match request.stream {
        true => http_response::stream(joined.listener, writer, choices, keep_alive, facts).await,
        false => http_response::whole(joined.listener, writer, choices, &facts).await,
    }
}
