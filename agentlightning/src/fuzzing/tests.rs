//! A short run of the fuzzers' functions over bodies that are nearly right, the same at every time.

use fulgurite_api::fuzzing::fuzz_otlp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::{Value, json};

use super::{ROUTES, fuzz_rest};

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
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

fn mutated(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
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

fn export() -> Value {
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

fn protobuf() -> Vec<u8> {
    serde_json::from_value::<ExportTraceServiceRequest>(export()).unwrap().encode_to_vec()
}

/// A body or a query that its route takes.
fn valid(method: &str, path: &str, content_type: &str) -> Vec<u8> {
    let span = json!({
        "rollout_id": "r", "attempt_id": "0", "sequence_id": 7, "trace_id": "ab".repeat(16), "span_id": "cd".repeat(8),
        "parent_id": null, "name": "n", "status": {"status_code": "OK", "description": null},
        "attributes": {"prompt_token_ids": [1, 2]}, "events": [{"name": "e", "attributes": {}, "timestamp": 1.0}],
        "links": [], "start_time": 1.5, "end_time": 2.5, "context": null, "parent": null,
        "resource": {"attributes": {}, "schema_url": ""},
    });
    let rollout = json!({"input": {"q": 1}, "mode": "train", "metadata": {"k": 1}, "config": {
        "timeout_seconds": 60, "max_attempts": 2, "retry_condition": ["failed"]}});
    let search = json!({"status_in": ["running"], "filter_logic": "or", "limit": 2, "offset": 0, "sort_by": "status"});
    let body = match path {
        _ if method == "GET" => {
            return b"rollout_id=r&status_in=running&state_in=failed&limit=2&sort_by=status".to_vec();
        }
        "/v1/traces" if content_type == "application/x-protobuf" => return protobuf(),
        "/v1/traces" => export(),
        "/v1/agl/queues/rollouts/enqueue" => json!({"rollouts": [rollout]}),
        "/v1/agl/queues/rollouts/dequeue" => json!({"limit": 1, "worker_id": "w"}),
        "/v1/agl/rollouts" | "/v1/agl/rollouts/r" => rollout,
        "/v1/agl/rollouts/search" | "/v1/agl/rollouts/r/attempts/search" | "/v1/agl/workers/search" => search,
        "/v1/agl/waits/rollouts" => json!({"rollout_ids": ["r"], "timeout": 0.0}),
        "/v1/agl/workers/w" => json!({"heartbeat_stats": {"cpu": 1}}),
        "/v1/agl/resources" | "/v1/agl/resources/rs" => {
            json!({"m": {"resource_type": "llm", "endpoint": "e", "model": "m"}})
        }
        "/v1/agl/spans" => span,
        "/v1/agl/spans/search" => json!({"rollout_id": "r", "name_contains": "n", "limit": 2}),
        "/v1/agl/spans/next" => json!({"rollout_id": "r", "attempt_id": "0"}),
        "/v1/fulgurite/attempts/heartbeat" => json!({"attempts": [{"rollout_id": "r", "attempt_id": "0"}]}),
        "/rollout/r/reward" => json!({"value": 1.0, "name": "n", "components": {"a": 2}}),
        "/api/rollouts" => json!([{"rollout_id": "s", "input": 1, "is_train": true, "config": {"timeout_seconds": 5,
            "local": {"agent_class": "a:B", "env_map": {"Q": "q"}}}, "metadata": {}}]),
        "/api/rollouts/r" => json!({"status": {"state": "running", "last_attempt_id": "0", "error_message": null}}),
        "/api/rollouts/r/attempt/0/events" => json!({"event_type": "reward", "data": {"value": 1.0}}),
        _ => json!({"status": "running", "worker_id": "w", "last_heartbeat_time": 1.5, "metadata": {"a": 1}}),
    };
    body.to_string().into_bytes()
}

#[test]
fn mutated_exports_are_read_or_refused() {
    let mut random = Random(1);
    for seed in [protobuf(), export().to_string().into_bytes()] {
        fuzz_otlp(&seed);
        for _ in 0..4000 {
            fuzz_otlp(&mutated(seed.clone(), &mut random));
        }
    }
}

#[test]
fn mutated_requests_are_answered_in_their_dialect() {
    let mut random = Random(2);
    for (index, (method, path, content_type)) in ROUTES.iter().enumerate() {
        let seed = valid(method, path, content_type);
        let to_route = |body: &[u8]| fuzz_rest(&[&[index as u8], body].concat());
        to_route(&seed);
        for _ in 0..6 {
            to_route(&mutated(seed.clone(), &mut random));
        }
    }
}
