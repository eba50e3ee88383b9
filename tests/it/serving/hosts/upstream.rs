//! `fulgurite serve` in front of another server, whose answers it passes on: here another of itself.

use crate::common::{Server, model_flag, table, text, tiny_model};
use serde_json::{Value, json};

#[test]
fn calls_that_are_passed_on_say_everywhere_why_they_are_not_trained() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = tiny_model(there.path(), 512);
    let upstream = Server::start(there.path(), ["--model", &model_flag("tiny", &model)]);
    let judge = format!("judge=openai:{},upstream_model=tiny", upstream.url);
    let server = Server::start(here.path(), ["--model", &judge]);
    let rollout = json!({ "rollout_id": "ro-judged", "input": "count" });
    server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 1, "worker_id": "w" })).expect(200);
    let base = format!("/rollout/ro-judged/attempt/{}", text(&claimed[0]["attempt"]["attempt_id"]));
    let call = json!({ "model": "judge", "messages": [{ "role": "user", "content": "one" }], "max_tokens": 4 });
    let answer: Value = server.post(&format!("{base}/v1/chat/completions"), &call).expect(200);
    assert_eq!(answer["model"], "tiny");

    let call = json!({ "model": "judge", "messages": [{ "role": "user", "content": "two" }], "max_tokens": 4, "stream": true });
    let response =
        crate::common::client().post(format!("{}{base}/v1/chat/completions", server.url)).json(&call).send().unwrap();
    let response = response.text().unwrap();
    assert!(response.contains("[DONE]"), "{response}");
    // An untrained model may end before it has said anything.
    let has_started = response.replace("\"content\":\"\"", "").contains("\"content\":\"");
    let metrics = crate::common::client().get(format!("{}/metrics", server.url)).send().unwrap().text().unwrap();
    let of_chats = "gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name=\"chat\"";
    let first_tokens = metrics.lines().find(|line| line.starts_with(of_chats) && line.contains("judge")).unwrap();
    assert!(first_tokens.ends_with(if has_started { " 1" } else { " 0" }), "{first_tokens} after {response}");

    let drift = table(&server, ["drift", "ro-judged"]);
    assert!(drift.contains(" upstream"), "{drift}");
    let shown = table(&server, ["show", "ro-judged"]);
    assert!(shown.contains("begins a conversation (upstream)"), "{shown}");
    assert!(shown.contains("not to be trained: upstream"), "{shown}");
    let triplets = table(&server, ["triplets", "ro-judged"]);
    assert!(triplets.contains("a model call without token ids (upstream)"), "{triplets}");
    let checked = table(&server, ["store", "check"]);
    assert!(!checked.contains("broken"), "{checked}");
}
