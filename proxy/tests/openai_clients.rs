//! OpenAI's own clients and agents through the proxy: what they make of answers, and what they send back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::process::{Command, Stdio};

use common::clients::{node, python};
use common::families::QWEN3;
use common::{Script, Setup};
use fulgurite_backends::StopReason;
use fulgurite_store::model::{Generation, GenerationFilter};
use serde_json::{Value, json};

const BEGIN: &str = "<think>\nhm\n</think>\n\n";
const CALL: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 17, \"b\": 4}}\n</tool_call>";
const CALLS: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>\n\
                     <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3, \"b\": 4}}\n</tool_call>";
const LAST: &str = "21, 3 and 7 \u{1f9ee}.";

/// A client that has one conversation below each of as many attempts: the model calls once, then twice at once, then
/// answers, and then says what follows. Gives what it prints and the rollouts.
async fn conversations(mut client: Command, number: usize, after: &[&str]) -> (Setup, Vec<Value>, Vec<String>) {
    let setup = QWEN3.setup().await;
    let (mut rollouts, mut bases) = (Vec::new(), Vec::new());
    for _ in 0..number {
        for said in [&format!("First.\n{CALL}"), CALLS, LAST].iter().chain(after) {
            let tokens = setup.sampled(&format!("{BEGIN}{said}<|im_end|>"));
            setup.play(Script::Answer(tokens, StopReason::StopToken));
        }
        let (rollout, base) = setup.attempt().await;
        rollouts.push(rollout);
        bases.push(base);
    }
    let home = tempfile::tempdir().unwrap();
    client.args(bases).stdin(Stdio::null()).env("HOME", home.path());
    client.env("OPENAI_API_KEY", "none").env("OPENAI_AGENTS_DISABLE_TRACING", "1");
    let ran = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let printed: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(printed.len(), number);
    (setup, printed, rollouts)
}

/// A rollout's generations, all of which its client took.
async fn generations(setup: &Setup, rollout: &str) -> Vec<Generation> {
    let filter = GenerationFilter { rollout_id: Some(rollout.to_owned()), ..GenerationFilter::default() };
    let generations = setup.store.generations(&filter).await.unwrap();
    assert!(generations.iter().all(|generation| !generation.client_gone));
    generations
}

/// Whether each goes on token by token from the one before.
fn are_a_chain(generations: &[Generation]) -> bool {
    generations.windows(2).all(|pair| pair[1].parent_id.as_ref() == Some(&pair[0].generation_id))
}

#[tokio::test]
async fn openais_python_client_goes_on_from_responses_in_every_way() {
    goes_on_in_every_way(python("openai_responses.py"), 6).await;
}

#[tokio::test]
async fn openais_node_client_goes_on_from_responses_in_every_way() {
    match node("openai_responses.mjs", "openai") {
        Some(client) => goes_on_in_every_way(client, 4).await,
        None => eprintln!("not tried: tests/run found no npm to install OpenAI's client for Node with"),
    }
}

/// The same conversation in several ways has the same tokens in all of them.
async fn goes_on_in_every_way(client: Command, ways: usize) {
    let (setup, printed, rollouts) = conversations(client, ways, &[]).await;
    let mut seen = Vec::new();
    for (said, rollout) in printed.iter().zip(&rollouts) {
        assert_eq!(*said, json!(["First.", "", LAST]));
        let generations = generations(&setup, rollout).await;
        assert!(are_a_chain(&generations));
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
        // Through Responses it sends the reasoning back.
        assert!(way >= 2 || are_a_chain(&generations[..3]), "{way}");
    }
}
