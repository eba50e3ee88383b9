//! Bytes that are nearly right, the same at every time; the tests of two rooms change theirs like this.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::{Value, json};

/// Numbers that look random (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) as usize % limit.max(1)
    }
}

/// What readers stumble over.
const STUMBLING_BLOCKS: &[&str] = &[
    "null",
    "-1",
    "1e999",
    "9223372036854775808",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "true",
    "0.5",
    "\"latest\"",
    "\u{ff}",
    "[[[[",
    "\"0\"",
    "&limit=",
    "=-1",
    "%00",
    "%ff",
];

pub(super) fn mutated(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        let (at, other) = (random.below(bytes.len() + 1), random.below(bytes.len() + 1));
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at.min(other)..at.max(other).min(at.min(other) + 8))),
            2 => drop(bytes.splice(at..at, bytes[at.min(other)..at.max(other)].to_vec())),
            3 => bytes.truncate(at),
            _ => {
                let block = STUMBLING_BLOCKS[random.below(STUMBLING_BLOCKS.len())].bytes();
                drop(bytes.splice(at..(at + random.below(6)).min(bytes.len()), block));
            }
        }
    }
    bytes
}

pub(super) fn export() -> Value {
    json!({"resourceSpans": [{"schemaUrl": "u", "resource": {"attributes": [
    {"key": "agentlightning.rollout_id", "value": {"stringValue": "r"}},
    {"key": "agentlightning.attempt_id", "value": {"stringValue": "0"}}]},
    "scopeSpans": [{"spans": [{
        "traceId": "ab".repeat(16), "spanId": "0c".repeat(8), "name": "work", "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000000100000000", "status": {"code": 2, "message": "m"},
        "events": [{"timeUnixNano": "1", "name": "e", "attributes": []}],
        "links": [{"traceId": "ab".repeat(16), "spanId": "0c".repeat(8), "attributes": []}],
        "attributes": [
            {"key": "agentlightning.span_sequence_id", "value": {"intValue": "7"}},
            {"key": "list", "value": {"arrayValue": {"values": [{"doubleValue": 0.5}, {"boolValue": true}]}}},
            {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"bytesValue": "AP8="}}]}}}],
    }]}]}]})
}

pub(super) fn protobuf() -> Vec<u8> {
    serde_json::from_value::<ExportTraceServiceRequest>(export()).unwrap().encode_to_vec()
}
