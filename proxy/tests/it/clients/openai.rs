//! OpenAI's own clients and agents through the proxy: what they make of answers, and what they send back.

use std::process::{Command, Stdio};

use crate::common::Script;
use crate::common::clients::{node, python};
use crate::common::conversations::{LAST, assert_they_are_a_chain, conversations, generations};
use crate::common::families::QWEN3;
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

#[tokio::test]
async fn openais_python_client_goes_on_from_responses_in_every_way() {
    goes_on_in_every_way(python("openai_responses.py"), 6).await;
}

#[tokio::test]
async fn openais_node_client_goes_on_from_responses_in_every_way() {
    match node("openai_responses.mjs", "openai") {
        Some(client) => goes_on_in_every_way(client, 4).await,
        None => eprintln!("not tried: tests/setup found no npm to install OpenAI's client for Node with"),
    }
}

/// The same conversation in several ways has the same tokens in all of them.
async fn goes_on_in_every_way(client: Command, ways: usize) {
    let (setup, printed, rollouts) = conversations(client, ways, &[]).await;
    let mut seen = Vec::new();
    for (way, (texts, rollout)) in printed.iter().zip(&rollouts).enumerate() {
        assert_eq!(*texts, json!(["First.", "", LAST]));
        let generations = generations(&setup, rollout).await;
        assert_they_are_a_chain(&generations, way);
        let tokens = generations.into_iter().map(|generation| (generation.prompt_tokens, generation.sampled_tokens));
        seen.push(tokens.collect::<Vec<_>>());
    }
    assert_eq!(seen[0].len(), 3);
    assert!(seen.iter().all(|tokens| *tokens == seen[0]));
}

#[tokio::test]
async fn openais_agents_go_on_from_each_answer_in_both_dialects() {
    let (setup, printed, rollouts) = conversations(python("openai_agents.py"), 4, &["Yes."]).await;
    for (way, (answers, rollout)) in printed.iter().zip(&rollouts).enumerate() {
        assert_eq!(*answers, json!([LAST, "Yes."]), "{way}");
        let generations = generations(&setup, rollout).await;
        assert_eq!(generations.len(), 4);
        assert_they_are_a_chain(&generations, way);
    }
}

#[tokio::test]
async fn openais_python_client_compacts_a_conversation_and_goes_on() {
    let setup = QWEN3.setup().await;
    for text in ["It rains.", "It rains in Paris.", "Yes.", "It rains in Paris.", "Yes."] {
        setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)(text)), SamplingEnd::StopToken));
    }
    let (rollout, base) = setup.attempt().await;
    let home = tempfile::tempdir().unwrap();
    let mut client = python("openai_compaction.py");
    client.arg(base).stdin(Stdio::null()).env("HOME", home.path()).env("OPENAI_API_KEY", "none");
    let ran = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let went_on = json!([["message", "compaction"], "Yes."]);
    assert_eq!(printed, json!([went_on, went_on, "input[0].encrypted_content"]));
    let generations = generations(&setup, &rollout).await;
    let defects: Vec<bool> = generations.iter().map(|generation| generation.defect.is_some()).collect();
    assert_eq!(defects, [false, true, false, true, false]);
    assert_eq!(generations[1].prompt_tokens, generations[3].prompt_tokens, "by items and by id");
    assert_eq!(generations[2].prompt_tokens, generations[4].prompt_tokens);
}
