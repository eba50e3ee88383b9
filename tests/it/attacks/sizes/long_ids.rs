//! Ids of a megabyte, in every API in which clients choose them: refused, with how long they may be.

use serde_json::{Value, json};

use crate::common::{Server, model_flag, text, tiny_model};

#[test]
fn an_id_that_a_client_chooses_is_bounded_in_every_api() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let [rollout] = server.enqueue([json!(1)], &json!({})).try_into().unwrap();
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 1 })).expect(200);
    let attempt = text(&claimed[0]["attempt"]["attempt_id"]);
    let (long, in_path) = ("x".repeat(1 << 20), "y".repeat(513));
    let span = |name: &str, value: &str| {
        let mut span = json!({
            "rollout_id": rollout, "attempt_id": attempt, "sequence_id": 1, "trace_id": "t", "span_id": "s",
            "parent_id": null, "name": "n", "status": { "status_code": "OK", "description": null },
            "attributes": {}, "events": [], "links": [], "start_time": 1.0, "end_time": 2.0, "context": null,
            "parent": null, "resource": { "attributes": {}, "schema_url": "" },
        });
        span[name] = json!(value);
        span
    };
    let cases: Vec<(String, Value)> = vec![
        ("/v1/agl/queues/rollouts/enqueue".into(), json!({ "rollouts": [{ "input": 1, "rollout_id": long }] })),
        ("/v1/agl/queues/rollouts/enqueue".into(), json!({ "rollouts": [{ "input": 1, "resources_id": long }] })),
        (
            "/v1/agl/queues/rollouts/enqueue".into(),
            json!({ "rollouts": [{ "input": 1, "metadata": { "run_id": long } }] }),
        ),
        ("/v1/agl/queues/rollouts/dequeue".into(), json!({ "limit": 1, "worker_id": long })),
        ("/v1/agl/rollouts".into(), json!({ "input": 1, "worker_id": long })),
        (format!("/v1/agl/workers/{in_path}"), json!({ "heartbeat_stats": {} })),
        (
            format!("/v1/agl/resources/{in_path}"),
            json!({ "p": { "resource_type": "prompt_template", "template": "t", "engine": "f-string" } }),
        ),
        ("/v1/agl/spans".into(), span("span_id", &long)),
        ("/v1/agl/spans".into(), span("trace_id", &long)),
        ("/v1/agl/spans".into(), span("parent_id", &long)),
        ("/v1/fulgurite/keys/worker".into(), json!({ "name": long, "seconds": 60 })),
        ("/v1/fulgurite/runs".into(), json!({ "run_id": long, "name": "r", "seed": 1, "config": {} })),
        // The only calls of a model that begin an attempt.
        (
            format!("/proxy/rollout/{rollout}/attempt/{in_path}/mode/train/openai/v1/chat/completions"),
            json!({ "model": "tiny", "max_tokens": 1, "messages": [{ "role": "user", "content": "x" }] }),
        ),
        ("/api/rollouts".into(), json!([{ "rollout_id": long, "input": {} }])),
    ];
    for (path, body) in cases {
        let answer = server.post(&path, &body);
        let shown = format!("{} {path:.80}: {:.400}", answer.status, answer.text);
        assert!((400..500).contains(&answer.status) && answer.text.contains("and may have 512"), "{shown}");
        assert!(answer.text.len() < 2000, "{shown}");
    }
    // One of just that length is as good as any.
    let most = "z".repeat(512);
    server
        .post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [{ "input": 1, "rollout_id": most }] }))
        .expect(201);
}
