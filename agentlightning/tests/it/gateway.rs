use axum::http::StatusCode;
use fulgurite_types::{AttemptStatus, GenerationUse, NewGeneration, NewRun, RolloutStatus, StopReason};
use serde_json::{Value, json};

use crate::served::Api;
use crate::test_store::generation;

async fn get(api: &Api, path: &str) -> Value {
    let (status, reply) = api.get(path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {reply}");
    reply
}

async fn patch(api: &Api, rollout_id: &str, status: Value) -> (StatusCode, Value) {
    api.send("PATCH", &format!("/api/rollouts/{rollout_id}"), json!({ "status": status }).to_string()).await
}

async fn state(api: &Api, rollout_id: &str) -> Value {
    get(api, &format!("/api/rollouts/{rollout_id}")).await["rollout"]["status"]["state"].clone()
}

#[tokio::test]
async fn what_one_dialect_enqueues_the_other_runs() {
    let api = Api::new().await;
    // Made here, run there.
    api.done("/api/rollouts", json!([{"rollout_id": "r", "input": 1, "is_train": false}])).await;
    let claimed = api.done("/v1/agl/queues/rollouts/dequeue", json!({"worker_id": "w"})).await;
    assert_eq!((&claimed[0]["rollout_id"], &claimed[0]["mode"]), (&json!("r"), &json!("val")));
    assert_eq!(claimed[0]["config"]["timeout_seconds"], 3600.0);
    let running = get(&api, "/api/rollouts?state_in=running").await;
    assert_eq!(running[0]["status"]["last_attempt_id"], claimed[0]["attempt"]["attempt_id"]);
    assert_eq!(running[0]["is_train"], false);
    api.done("/v1/agl/rollouts/r/attempts/latest", json!({"status": "succeeded"})).await;
    assert_eq!(state(&api, "r").await, "succeeded");
    assert_eq!(get(&api, "/api/rollouts/terminal").await["items"][0]["rollout_id"], "r");

    // Made there, run here; the config there asks for another attempt, but who runs it here has the last word.
    let retried = json!({"rollout_id": "s", "input": {"instance_id": "i"}, "config": {
        "max_attempts": 2, "retry_condition": ["failed"]}});
    api.done("/v1/agl/queues/rollouts/enqueue", json!({"rollouts": [retried]})).await;
    assert_eq!(get(&api, "/api/rollouts?state_in=queuing").await[0]["rollout_id"], "s");
    let (_, updated) = patch(&api, "s", json!({"state": "running", "last_attempt_id": "0"})).await;
    assert_eq!((&updated["status"]["state"], &updated["status"]["version"]), (&json!("running"), &json!(2)));
    assert_eq!(api.done("/v1/agl/queues/rollouts/dequeue", json!({})).await, json!([]));
    patch(&api, "s", json!({"state": "failed", "error_message": "broke"})).await;
    let (_, found) = api.get("/v1/agl/rollouts/s").await;
    assert_eq!((&found["status"], &found["attempt"]["attempt_id"]), (&json!("failed"), &json!("0")));
    assert_eq!(found["attempt"]["status"], "failed");
    assert_eq!(
        get(&api, "/api/rollouts/terminal?after=1").await,
        json!({"items": [{"rollout_id": "s", "state": "failed", "data_id": "i", "is_train": true}], "next_after": 2,
            "total_terminal": 2})
    );
}

#[tokio::test]
async fn every_status_has_a_word_here() {
    let api = Api::new().await;
    for (status, word) in [
        ("queuing", "queuing"),
        ("requeuing", "queuing"),
        ("preparing", "running"),
        ("running", "running"),
        ("succeeded", "succeeded"),
        ("failed", "failed"),
        ("cancelled", "failed"),
    ] {
        api.done("/v1/agl/queues/rollouts/enqueue", json!({"rollouts": [{"rollout_id": status, "input": 1}]})).await;
        api.done(&format!("/v1/agl/rollouts/{status}"), json!({"status": status})).await;
        assert_eq!(state(&api, status).await, word, "{status}");
    }
    let failed = get(&api, "/api/rollouts?state_in=failed").await;
    let ids: Vec<_> = failed.as_array().unwrap().iter().map(|rollout| &rollout["rollout_id"]).collect();
    assert_eq!(ids, ["failed", "cancelled"]);
    assert_eq!(get(&api, "/api/rollouts?state_in=failed&state_in=queuing&limit=1").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_rollout_that_has_ended_goes_nowhere() {
    let api = Api::new().await;
    api.done("/api/rollouts", json!([{"rollout_id": "r", "input": 1}])).await;
    let refused = |from: &str, to: &str| {
        (StatusCode::CONFLICT, json!({"detail": format!("Rollout r: cannot transition {from} -> {to}")}))
    };
    assert_eq!(patch(&api, "r", json!({"state": "succeeded"})).await, refused("queuing", "succeeded"));
    assert_eq!(patch(&api, "r", json!({"state": "running", "k8s_job_name": "job"})).await.0, StatusCode::OK);
    assert_eq!(patch(&api, "r", json!({"state": "queuing"})).await, refused("running", "queuing"));
    assert_eq!(patch(&api, "r", json!({"state": "failed"})).await.0, StatusCode::OK);
    let (_, same) = patch(&api, "r", json!({"state": "failed", "error_message": "late", "k8s_job_name": null})).await;
    assert_eq!((&same["status"]["error_message"], &same["status"]["k8s_job_name"]), (&json!("late"), &json!("job")));
    assert_eq!(patch(&api, "r", json!({"state": "running"})).await, refused("failed", "running"));
    let (_, found) = api.get("/api/rollouts/r").await;
    // What was refused has changed nothing.
    assert_eq!(found["rollout"]["status"]["version"], 4);
    assert_eq!(found["attempts"], json!([]));
    assert_eq!(patch(&api, "no", json!({})).await, (StatusCode::NOT_FOUND, json!({"detail": "Rollout not found: no"})));
}

#[tokio::test]
async fn deleting_takes_everything_and_leaves_the_list_of_the_finished_in_place() {
    let api = Api::new().await;
    for id in ["r", "s"] {
        api.done("/api/rollouts", json!([{"rollout_id": id, "input": 1}])).await;
        patch(&api, id, json!({"state": "running", "last_attempt_id": "0"})).await;
        api.done(&format!("/api/rollouts/{id}/attempt/0/events"), json!({"event_type": "note", "data": {}})).await;
        patch(&api, id, json!({"state": "succeeded"})).await;
    }
    let delete = async |id: &str| api.status("DELETE", &format!("/api/rollouts/{id}")).await;
    assert_eq!((delete("r").await, delete("r").await), (StatusCode::NO_CONTENT, StatusCode::NO_CONTENT));
    assert_eq!(api.get("/api/rollouts/r").await.0, StatusCode::NOT_FOUND);
    assert_eq!(api.get("/api/rollouts/r/events").await.0, StatusCode::NOT_FOUND);
    let statistics = api.store.queries().statistics().await.unwrap();
    assert_eq!((statistics.rollouts, statistics.attempts, statistics.spans), (1, 1, 1));
    let listed = get(&api, "/api/rollouts/terminal?after=0&limit=1").await;
    assert_eq!(listed, json!({"items": [], "next_after": 1, "total_terminal": 2}));
    assert_eq!(get(&api, "/api/rollouts/terminal?after=1").await["items"][0]["rollout_id"], "s");
    // The same id again is another rollout, with a place of its own.
    api.done("/api/rollouts", json!([{"rollout_id": "r", "input": 2}])).await;
    patch(&api, "r", json!({"state": "failed"})).await;
    assert_eq!(get(&api, "/api/rollouts/terminal?after=2").await["items"][0]["rollout_id"], "r");
}

#[tokio::test]
async fn what_a_training_run_has_used_is_not_deleted() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let rollout_id = attempted.rollout.rollout_id.as_str();
    api.store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
    let path = format!("/api/rollouts/{rollout_id}");
    let run = NewRun { run_id: "run".into(), name: "run".into(), config: json!({}), seed: 0 };
    api.store.runs().create(run).await.unwrap();
    let used = GenerationUse { generation_id: "g".into(), cause: "trained".into(), tokens: 1 };
    api.store.runs().record_uses("run", vec![used]).await.unwrap();
    let refused = json!({"detail": format!("rollout is part of a training run's record: {rollout_id}")});
    assert_eq!(api.send("DELETE", &path, "").await, (StatusCode::CONFLICT, refused));
    assert_eq!(api.store.queries().statistics().await.unwrap().spans, 1);
}

#[tokio::test]
async fn events_come_back_as_they_were_posted_and_open_their_attempt() {
    let api = Api::new().await;
    api.done("/api/rollouts", json!([{"rollout_id": "r", "input": 1}])).await;
    let data = json!({"deep": {"list": [1, 1.0, null, {"a": true}]}, "text": "\u{0}é"});
    let posted = api.done("/api/rollouts/r/attempt/0/events", json!({"event_type": "step", "data": data})).await;
    assert_eq!((&posted["event_type"], &posted["attempt_id"], &posted["data"]), (&json!("step"), &json!("0"), &data));
    let reward = json!({"event_type": "reward", "data": {"value": 0.5, "reason": "half"}});
    api.done("/api/rollouts/r/attempt/0/events", reward.clone()).await;
    assert_eq!(get(&api, "/api/rollouts/r/events").await[0], posted);
    assert_eq!(get(&api, "/api/rollouts/r/events?event_type=reward").await[0]["data"], reward["data"]);
    assert_eq!(get(&api, "/api/rollouts/r/events?event_type=other").await, json!([]));
    let rewards = api.store.rewards().of_attempt("r", "0").await.unwrap();
    assert_eq!(rewards.iter().map(|recorded| recorded.reward.value).collect::<Vec<_>>(), [0.5]);
    let attempt = api.store.attempts().get("r", "0").await.unwrap().unwrap();
    assert_eq!((attempt.sequence_id, attempt.status), (1, AttemptStatus::Running));
    // Only who takes it off the queue does that.
    assert_eq!(api.store.rollouts().get("r").await.unwrap().unwrap().0.status, RolloutStatus::Queuing);

    for (body, location) in [
        (json!({"event_type": "reward", "data": {"value": "1"}}), json!(["body", "data", "value"])),
        (json!({"event_type": "reward", "data": {}}), json!(["body", "data", "value"])),
        (json!({"event_type": "x"}), json!(["body", "data"])),
        (json!({"event_type": "x", "data": 1}), json!(["body", "data"])),
    ] {
        let (status, reply) = api.post("/api/rollouts/r/attempt/0/events", body).await;
        assert_eq!((status, &reply["detail"][0]["loc"]), (StatusCode::UNPROCESSABLE_ENTITY, &location));
    }
    let unknown = api.post("/api/rollouts/no/attempt/0/events", reward).await;
    assert_eq!(unknown, (StatusCode::NOT_FOUND, json!({"detail": "Rollout not found: no"})));
}

#[tokio::test]
async fn rewards_of_the_other_dialect_are_events_too() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let rollout_id = attempted.rollout.rollout_id.as_str();
    api.store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
    api.done(&format!("/rollout/{rollout_id}/generation/g/reward"), json!({"value": 0.25})).await;
    api.done(&format!("/rollout/{rollout_id}/reward"), json!({"value": 1})).await;
    let events = get(&api, &format!("/api/rollouts/{rollout_id}/events?event_type=reward")).await;
    let data: Vec<_> = events.as_array().unwrap().iter().map(|event| &event["data"]).collect();
    assert_eq!(data, [&json!({"value": 1.0})]);
}

#[tokio::test]
async fn of_calls_with_one_prompt_the_last_is_a_triplet() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let path = format!("/api/rollouts/{}/events", attempted.rollout.rollout_id);
    for (id, prompt, sampled) in [("a", 1, 2), ("b", 3, 4), ("c", 1, 5)] {
        api.store.recording().record(generation(id, &attempted, &[prompt], &[sampled])).await.unwrap();
    }
    let found = get(&api, &format!("{path}?format=triplet")).await;
    let tokens: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["data"]["prompt_token_ids"], &event["data"]["response_token_ids"]))
        .collect();
    assert_eq!(tokens, [(&json!([3]), &json!([4])), (&json!([1]), &json!([5]))]);
    assert_eq!(get(&api, &path).await.as_array().unwrap().len(), 3);
    let call = &found[0]["data"];
    assert_eq!(call["server"], json!({"model": "tiny", "version": 3}));
    assert_eq!(call["response_log_probs"], json!([f64::from(-0.1 * 4_f32)]));
}

#[tokio::test]
async fn a_call_that_broke_is_an_error_whatever_had_been_sampled() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let path = format!("/api/rollouts/{}/events?event_type=model_request", attempted.rollout.rollout_id);
    let broken = NewGeneration { stop_reason: StopReason::Error, ..generation("g", &attempted, &[1], &[2]) };
    api.store.recording().record(broken).await.unwrap();
    let events = get(&api, &path).await;
    let data = &events[0]["data"];
    assert_eq!((&data["status"], &data["http_status"]), (&json!("error"), &Value::Null));
    let message = "the model host failed in the middle of the answer";
    assert_eq!(data["response"]["error"], json!({ "message": message }));
    let found = get(&api, &format!("{path}&format=triplet")).await;
    assert_eq!(
        (&found[0]["data"]["status"], &found[0]["data"]["error"]["message"]),
        (&json!("error"), &json!(message))
    );
}

#[tokio::test]
async fn the_event_of_a_call_has_its_tools_and_messages_as_they_were_sent() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","maximum":18446744073709551616}}}"#;
    let mut call = generation("g", &attempted, &[1], &[2]);
    for (key, value) in [
        ("gen_ai.prompt.0.role", json!("user")),
        ("gen_ai.prompt.0.content", json!("Rain?")),
        ("gen_ai.request.functions.0.name", json!("weather")),
        ("gen_ai.request.functions.0.parameters", json!(schema)),
        ("gen_ai.completion.0.role", json!("assistant")),
        ("gen_ai.completion.0.tool_calls.0.id", json!("c1")),
        ("gen_ai.completion.0.tool_calls.0.type", json!("function")),
        ("gen_ai.completion.0.tool_calls.0.name", json!("weather")),
        ("gen_ai.completion.0.tool_calls.0.arguments", json!("{\"a\":1}")),
        ("gen_ai.completion.0.finish_reason", json!("tool_calls")),
    ] {
        call.attributes.insert(key.to_owned(), value);
    }
    api.store.recording().record(call).await.unwrap();
    let events = get(&api, &format!("/api/rollouts/{}/events", attempted.rollout.rollout_id)).await;
    let data = &events[0]["data"];
    let parameters: Value = serde_json::from_str(schema).unwrap();
    let function = json!({ "name": "weather", "parameters": parameters });
    assert_eq!(data["request"]["tools"], json!([{ "type": "function", "function": function }]), "{data}");
    assert_eq!(data["request"]["messages"], json!([{ "role": "user", "content": "Rain?" }]));
    assert_eq!(data["request"].get("functions"), None);
    let message = &data["response"]["choices"][0]["message"];
    assert_eq!(
        message["tool_calls"][0]["function"],
        json!({ "name": "weather", "arguments": "{\"a\":1}" }),
        "{message}"
    );
    assert_eq!(data["finish_reason"], "tool_calls");
}
