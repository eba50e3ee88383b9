//! What a call that is to be recorded must be.

use fulgurite_types::{BranchReason, Defect, NewGeneration, WeightsFrom};

use crate::database::sql::{checked_id, optional_plain, plain};
use crate::{Result, StoreError};

pub(crate) fn validate(generation: &NewGeneration) -> Result<()> {
    let texts = [
        ("generation_id", generation.generation_id.as_str()),
        ("span_id", &generation.span_id),
        ("trace_id", &generation.trace_id),
        ("name", &generation.name),
        ("model", &generation.model),
        ("stop_reason", generation.stop_reason.as_str()),
        ("renderer", &generation.renderer),
        ("tokenizer", &generation.tokenizer),
        ("request_digest", &generation.request_digest),
    ];
    for (field, value) in &texts {
        plain(field, value)?;
    }
    let [generation_id, span_id, trace_id, ..] = &texts;
    for (field, value) in [generation_id, span_id, trace_id] {
        checked_id(field, value)?;
    }
    for (field, value) in texts.into_iter().take(2) {
        if value.is_empty() {
            return Err(StoreError::invalid(field, "must not be empty"));
        }
    }
    optional_plain("branch_reason", generation.branch_reason.as_ref().map(BranchReason::as_str))?;
    optional_plain("defect", generation.defect.as_ref().map(Defect::as_str))?;
    for (field, time) in [("start_time", generation.start_time), ("end_time", generation.end_time)] {
        if !time.is_finite() {
            return Err(StoreError::invalid(field, "is not a finite number"));
        }
    }
    let sampled = generation.sampled_tokens.len();
    if let Some(logprobs) = &generation.logprobs
        && logprobs.len() != sampled
    {
        let message = format!("has {} entries for {sampled} sampled tokens", logprobs.len());
        return Err(StoreError::invalid("logprobs", message));
    }
    validate_weights(&generation.weights_versions, sampled)
}

fn validate_weights(weights: &[WeightsFrom], sampled: usize) -> Result<()> {
    let begins_at_0 = weights.first().is_none_or(|first| first.first_token == 0);
    let increases = weights.windows(2).all(|pair| pair[0].first_token < pair[1].first_token);
    let ends_inside = weights.last().is_none_or(|last| last.first_token < sampled);
    if begins_at_0 && increases && ends_inside {
        return Ok(());
    }
    let message = format!("must begin at token 0, increase, and stay below the {sampled} sampled tokens");
    Err(StoreError::invalid("weights_versions", message))
}
