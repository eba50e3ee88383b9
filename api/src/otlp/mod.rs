//! OpenTelemetry's trace export (OTLP) as spans of attempts, and the other way round; no I/O.
//!
//! A span belongs to the attempt that `agentlightning.rollout_id` and `agentlightning.attempt_id` name, among its own
//! attributes or else among its resource's; `agentlightning.span_sequence_id` is its place in its rollout. A log record that
//! names none belongs to the attempt that has its trace. Kind, scope, flags, trace state and the counts of what was dropped
//! are not kept.

mod batch;
mod json;
mod mapping;
mod signal;
mod unmapping;

use fulgurite_store::{Result, StoreError};
use fulgurite_types::{IncomingSpan, Span};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

pub(crate) use self::signal::Signal;
use crate::conventions::found_and_expected;

/// The spans of one export.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Export {
    /// Those that name an attempt, in the order of the request.
    pub spans: Vec<IncomingSpan>,
    /// Log records that name no attempt, with empty ids of rollout and attempt: their trace may belong to one.
    pub unplaced: Vec<IncomingSpan>,
    /// The others.
    pub rejected: Rejected,
}

/// Spans of an export that cannot be stored.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rejected {
    /// How many.
    pub count: i64,
    /// Why the first of them was refused.
    pub first_reason: Option<String>,
}

impl Rejected {
    /// Counts one more; `reason` is asked for only if it is the first.
    pub(crate) fn add(&mut self, reason: impl FnOnce() -> String) {
        self.count += 1;
        self.first_reason.get_or_insert_with(reason);
    }
}

/// Reads an export in protobuf. An item that cannot be read is rejected alone.
pub(crate) fn from_protobuf(signal: Signal, bytes: &[u8]) -> Result<Export> {
    let groups = batch::from_protobuf(signal, bytes).map_err(|error| not_an_export(signal, error))?;
    Ok(mapping::export(signal, groups))
}

/// Reads an export in OTLP's JSON: ids in hexadecimal, 64-bit integers as numbers or texts, enums as numbers or names. What
/// it does not know it passes over; an item that cannot be read is rejected alone.
pub(crate) fn from_json(signal: Signal, bytes: &[u8]) -> Result<Export> {
    let groups = batch::from_json(signal, bytes).map_err(|error| not_an_export(signal, error))?;
    Ok(mapping::export(signal, groups))
}

/// An `ExportTraceServiceRequest` in protobuf, for a collector. Each span says whose it is in the way that this module
/// reads.
pub fn spans_to_protobuf(spans: &[Span]) -> Vec<u8> {
    unmapping::request(spans).encode_to_vec()
}

/// How many spans a collector refused of an export that it took, and why, by its `ExportTraceServiceResponse` in
/// protobuf. An answer that is none says nothing.
pub fn rejected_spans(response: &[u8]) -> Option<(u64, String)> {
    let partial = ExportTraceServiceResponse::decode(response).ok()?.partial_success?;
    let count = u64::try_from(partial.rejected_spans).unwrap_or_default();
    (count > 0).then_some((count, partial.error_message))
}

fn not_an_export(signal: Signal, error: impl std::fmt::Display) -> StoreError {
    let words = found_and_expected(&error.to_string());
    StoreError::invalid("body", format!("is not an {}: {words}", signal.request()))
}

#[cfg(test)]
mod tests;
