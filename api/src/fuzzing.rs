//! What a fuzzer runs: bytes from outside, through what reads OpenTelemetry's exports.

#![allow(clippy::expect_used, reason = "a fuzzer knows a failure by its panic")]

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod tests;

use crate::otlp::{Export, Signal, from_json, from_protobuf};

/// Reads bytes as an export of spans, in protobuf and in JSON. Whatever is read must be a span that can be given back.
pub fn fuzz_otlp(bytes: &[u8]) {
    let exports = [Signal::Traces, Signal::Logs]
        .into_iter()
        .flat_map(|signal| [from_protobuf(signal, bytes), from_json(signal, bytes)]);
    for Export { spans, unplaced, rejected } in exports.flatten() {
        assert_eq!(rejected.count > 0, rejected.first_reason.is_some(), "a reason goes with what it refuses");
        assert!(unplaced.iter().all(|incoming| incoming.span.rollout_id.is_empty()), "they name no attempt");
        for incoming in spans {
            let span = incoming.span;
            assert_eq!((span.trace_id.len(), span.span_id.len()), (32, 16), "ids have their length");
            assert!(!span.rollout_id.is_empty() && !span.attempt_id.is_empty(), "a span says whose it is");
            let text = serde_json::to_string(&span).expect("a span is JSON");
            let read: fulgurite_types::Span = serde_json::from_str(&text).expect("its JSON is a span");
            assert_eq!((read.span_id, read.events.len()), (span.span_id, span.events.len()), "and the same one");
        }
    }
}
