//! Calls beside the task that only their shape tells.

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

use crate::common::families::{QWEN3, request};
use crate::common::{Script, Setup};

/// Asks, and gives the reply's message and why the call goes on from no other.
async fn ask(setup: &Setup, base: &str, body: &Value, trainable: Option<&str>) -> (Value, Option<String>) {
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Done.")), SamplingEnd::StopToken));
    let mut call = setup.client.post(format!("{base}/chat/completions")).json(body);
    if let Some(trainable) = trainable {
        call = call.header("x-fulgurite-trainable", trainable);
    }
    let reply: Value = call.send().await.unwrap().json().await.unwrap();
    let generations = setup.generations().await;
    let generation = generations.iter().find(|generation| reply["id"] == generation.generation_id.as_str()).unwrap();
    let reason = generation.branch_reason.as_ref().map(|reason| reason.as_str().to_owned());
    (reply["choices"][0]["message"].clone(), reason)
}

fn without_tools(text: &str) -> Value {
    json!({ "model": "tiny", "messages": [{ "role": "user", "content": text }] })
}

#[tokio::test]
async fn a_conversation_without_tools_is_told_where_the_task_has_some() {
    let setup = QWEN3.setup().await;
    let (rollout, base) = setup.attempt().await;
    let first_turn = Some("first_turn".to_owned());
    // Before a call with tools nothing tells it from the task.
    assert_eq!(ask(&setup, &base, &without_tools("Hello?"), None).await.1, first_turn);
    assert_eq!(ask(&setup, &base, &request(), None).await.1, first_turn);
    let (reply, reason) = ask(&setup, &base, &without_tools("Write a commit message."), None).await;
    assert_eq!(reason.as_deref(), Some("beside_tools"));
    let (_, reason) = ask(&setup, &base, &without_tools("Write another."), Some("true")).await;
    assert_eq!(reason, first_turn, "its client wants it to be trained");

    // What goes on from it is no beginning.
    let mut longer = without_tools("Write a commit message.");
    longer["messages"].as_array_mut().unwrap().extend([reply, json!({ "role": "user", "content": "Shorter." })]);
    let (_, reason) = ask(&setup, &base, &longer, None).await;
    assert!(reason.as_deref().is_none_or(|reason| reason == "other_branch"), "{reason:?}");
    let generations = setup.generations().await;
    let of_rollout = generations.iter().filter(|generation| generation.rollout_id == rollout);
    assert_eq!(of_rollout.filter(|generation| generation.parent_id.is_some()).count(), 1);

    // Another attempt knows nothing of that.
    let (_, base) = setup.attempt().await;
    assert_eq!(ask(&setup, &base, &without_tools("Write a commit message."), None).await.1, first_turn);
}

#[tokio::test]
async fn tools_that_were_shown_are_known_after_a_restart() {
    let mut setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    ask(&setup, &base, &request(), None).await;
    let path = base.strip_prefix(&setup.url).unwrap().to_owned();
    setup.restart().await;
    let base = format!("{}{path}", setup.url);
    let (_, reason) = ask(&setup, &base, &without_tools("Write a commit message."), None).await;
    assert_eq!(reason.as_deref(), Some("beside_tools"));
}
