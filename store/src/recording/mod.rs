//! Recording model calls: the way of every answer before its last byte leaves.
//!
//! A call is prepared where it comes from (`call_record`), and not where one write after the other is done. On SQLite a
//! call, or several that wait together, are one statement and one commit (`at_once`), in which the calls that they
//! continue are a guess (`latest_calls`) that the statement checks. Where the guess is wrong, on PostgreSQL, and within
//! a transaction with other writes that fails, it is done statement by statement (`one_by_one`). Both leave the same
//! rows.

mod at_once;
mod call_record;
mod columns;
mod latest_calls;
mod one_by_one;

pub(crate) use at_once::{CALLS_AT_ONCE, PREPARATION, record_at_once};
pub(crate) use call_record::CallRecord;
pub(crate) use latest_calls::LatestCalls;
pub(crate) use one_by_one::{import, record_one_by_one};

use fulgurite_types::{BranchReason, Defect, NewGeneration, WeightsFrom};

use crate::recorded_calls::Telling;
use crate::sql::{optional_plain, plain};
use crate::{Result, Store, StoreError};

impl Store {
    /// Records an answered model call in one transaction: its span, its tokens, and that its attempt has been heard
    /// of. Refused, with nothing stored, if the attempt is not known, if the id is taken, or if the lists do not fit
    /// each other. Logprobs that are not all finite are left out, and the generation says so as its defect.
    pub async fn record_generation(&self, generation: NewGeneration) -> Result<()> {
        let telling = self.telling(&generation);
        let latest_calls = self.latest_calls();
        let attempt = (generation.rollout_id.clone(), generation.attempt_id.clone());
        let call = CallRecord::new(generation, &latest_calls.of(&attempt))?;
        let continuable = call.continuable();
        self.writer()?.record(call).await?;
        if let Some(call) = continuable {
            latest_calls.note(attempt, call);
        }
        telling.into_iter().for_each(Telling::tell);
        Ok(())
    }

    /// Records the only call of a session, which begins and ends with it, in one transaction. Its rollout and attempt, which
    /// the generation names ([`SessionIds::new`](fulgurite_types::SessionIds::new)), must not be there yet.
    pub async fn record_session(&self, generation: NewGeneration) -> Result<()> {
        let telling = self.telling(&generation);
        self.writer()?.record(CallRecord::alone(generation)?).await?;
        telling.into_iter().for_each(Telling::tell);
        Ok(())
    }

    /// Records a model call that was answered to its end in the place of its beginning, which was recorded when its
    /// client had gone: the same id, the same place among the spans. Refused, with nothing changed, where no such
    /// beginning is recorded.
    pub async fn replace_generation(&self, generation: NewGeneration) -> Result<()> {
        let telling = self.telling(&generation);
        let call = CallRecord::new(generation, &[])?;
        self.write(move |write| Box::pin(async move { one_by_one::replace(write, &call).await })).await?;
        telling.into_iter().for_each(Telling::tell);
        Ok(())
    }

    /// Notes whether the client of a generation hung up before it had the whole answer.
    pub async fn set_client_gone(&self, generation_id: &str, client_gone: bool) -> Result<()> {
        let generation_id = generation_id.to_owned();
        self.write(move |write| {
            Box::pin(async move {
                let marked = sqlx::query(
                    "UPDATE generations SET client_gone = $2, checksum = (checksum & -2) | $2 WHERE generation_id = $1",
                )
                .bind(generation_id.as_str())
                .bind(i64::from(client_gone))
                .execute(write.connection())
                .await?
                .rows_affected();
                if marked == 0 { Err(StoreError::not_found("generation", &generation_id)) } else { Ok(()) }
            })
        })
        .await
    }
}

fn validate(generation: &NewGeneration) -> Result<()> {
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

#[cfg(test)]
mod tests;
