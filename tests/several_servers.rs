//! Several servers on one PostgreSQL database. Without one, as `tests/postgres` starts it, there is nothing to test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "../store/tests/test_database/mod.rs"]
mod test_database;

use std::collections::HashSet;

use common::{Server, model_flag, text, tiny_model};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_database::TestDatabase;

#[test]
fn an_attempt_whose_calls_come_to_either_of_two_servers_goes_on_token_by_token() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::new());
    if !database.is_postgres() {
        return;
    }
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let model = model_flag("tiny", &tiny_model(directories[0].path(), 512));
    let servers =
        directories.each_ref().map(|directory| Server::start_on(&database.url, directory.path(), ["--model", &model]));
    let [here, there] = &servers;
    let rollout_id = here.enqueue([json!(17)], &json!({})).remove(0);
    let taken = there.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    let base = format!("/rollout/{rollout_id}/attempt/{}/v1", text(&taken[0]["attempt"]["attempt_id"]));

    let mut messages = vec![json!({ "role": "user", "content": "Say you are 17." })];
    // Each server has calls before and behind one of the other's, and knows some of them already.
    for server in [here, there, there, here, there, here] {
        let body = json!({ "model": "tiny", "messages": messages, "max_tokens": 4 });
        let answer = server.post(&format!("{base}/chat/completions"), &body).expect(200);
        messages.push(answer["choices"][0]["message"].clone());
        messages.push(json!({ "role": "user", "content": "Once more." }));
    }

    let drift = here.get(&format!("/rollout/{rollout_id}/drift")).expect(200);
    let calls = drift["calls"].as_array().unwrap();
    let ids: Vec<&Value> = calls.iter().map(|call| &call["generation_id"]).collect();
    let continued: Vec<&Value> = calls.iter().map(|call| &call["continues"]).collect();
    let expected: Vec<&Value> = std::iter::once(&Value::Null).chain(ids).take(6).collect();
    assert_eq!(continued, expected, "{drift}");
    let seeds: HashSet<String> = here.query("generations").iter().map(|call| call["seed"].to_string()).collect();
    assert_eq!(seeds.len(), 6, "each call has a place of its own");
}
