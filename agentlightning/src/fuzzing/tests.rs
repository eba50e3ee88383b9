//! A short run of the fuzzers' functions over bodies that are nearly right, the same at every time.

use serde_json::json;

use super::mutation::{Random, export, mutated, protobuf};
use super::{ROUTES, fuzz_rest};

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
