//! What the rows of a call hold, whichever way they are written.

use fulgurite_types::{BranchReason, Defect};
use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use crate::Result;
use crate::database::sql::to_integer;
use crate::recording::call_record::CallRecord;

pub(super) type CallQuery<'q> = Query<'q, Any, AnyArguments>;

/// Appends `rollout_id`, `attempt_id`, `span_id`, `trace_id`, `name`, `start_time`, `end_time`.
pub(super) fn bind_span<'q>(query: CallQuery<'q>, call: &'q CallRecord) -> CallQuery<'q> {
    let generation = &call.generation;
    query
        .bind(generation.rollout_id.as_str())
        .bind(generation.attempt_id.as_str())
        .bind(generation.span_id.as_str())
        .bind(generation.trace_id.as_str())
        .bind(generation.name.as_str())
        .bind(generation.start_time)
        .bind(generation.end_time)
}

/// Appends `generation_id`, `branch_reason`, `model`, `sampled_tokens`, `logprobs`, `sampled_length`, `context_length`,
/// `context_hash`, `stop_reason`, `weights_versions`, `sampling`, `seed`, `renderer`, `tokenizer`, `request_digest`,
/// `client_gone`, `defect`.
pub(super) fn bind_generation<'q>(query: CallQuery<'q>, call: &'q CallRecord) -> Result<CallQuery<'q>> {
    let generation = &call.generation;
    let (context_length, context_hash) = call.context();
    let query = query
        .bind(generation.generation_id.as_str())
        .bind(generation.branch_reason.as_ref().map(BranchReason::as_str))
        .bind(generation.model.as_str())
        .bind(call.sampled())
        .bind(call.packed_logprobs.as_deref())
        .bind(to_integer("sampled_tokens", generation.sampled_tokens.len())?)
        .bind(to_integer("prompt_tokens", context_length)?)
        .bind(context_hash.to_vec())
        .bind(generation.stop_reason.as_str())
        .bind(call.weights_versions.as_str())
        .bind(call.sampling.as_str())
        .bind(generation.seed.cast_signed())
        .bind(generation.renderer.as_str())
        .bind(generation.tokenizer.as_str())
        .bind(generation.request_digest.as_str())
        .bind(i64::from(generation.client_gone))
        .bind(generation.defect.as_ref().map(Defect::as_str));
    Ok(query)
}
