//! The conversation that clients have with the model: a call, two calls at once, an answer, and what follows.

use std::process::{Command, Stdio};

use fulgurite_backends::SamplingEnd;
use fulgurite_types::{Generation, GenerationFilter};
use serde_json::Value;

use super::families::QWEN3;
use super::{Script, Setup};

const BEGIN: &str = "<think>\nhm\n</think>\n\n";
const CALL: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 17, \"b\": 4}}\n</tool_call>";
const CALLS: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>\n\
                     <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3, \"b\": 4}}\n</tool_call>";
pub const LAST: &str = "21, 3 and 7 \u{1f9ee}.";

/// A client that has one conversation below each of as many attempts: the model calls once, then twice at once, then
/// answers, and then says what follows. Gives what it prints and the rollouts.
pub async fn conversations(mut client: Command, number: usize, after: &[&str]) -> (Setup, Vec<Value>, Vec<String>) {
    let setup = QWEN3.setup().await;
    let (mut rollouts, mut bases) = (Vec::new(), Vec::new());
    for _ in 0..number {
        for text in [&format!("First.\n{CALL}"), CALLS, LAST].iter().chain(after) {
            let tokens = setup.sampled(&format!("{BEGIN}{text}<|im_end|>"));
            setup.play(Script::Answer(tokens, SamplingEnd::StopToken));
        }
        let (rollout, base) = setup.attempt().await;
        rollouts.push(rollout);
        bases.push(base);
    }
    let home = tempfile::tempdir().unwrap();
    client.args(bases).stdin(Stdio::null()).env("HOME", home.path());
    client.env("OPENAI_API_KEY", "none").env("OPENAI_AGENTS_DISABLE_TRACING", "1").env("ANTHROPIC_API_KEY", "none");
    let ran = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let printed: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(printed.len(), number);
    (setup, printed, rollouts)
}

/// A rollout's generations, all of which its client took.
pub async fn generations(setup: &Setup, rollout: &str) -> Vec<Generation> {
    let filter = GenerationFilter { rollout_id: Some(rollout.to_owned()), ..GenerationFilter::default() };
    let generations = setup.store.generations().matching(&filter).await.unwrap();
    assert!(generations.iter().all(|generation| !generation.client_disconnected));
    generations
}

/// Each goes on token by token from the one before.
pub fn assert_they_are_a_chain(generations: &[Generation], way: usize) {
    assert_eq!(generations[0].branch_reason.as_ref().map(ToString::to_string).as_deref(), Some("first_turn"), "{way}");
    for (turn, pair) in generations.windows(2).enumerate() {
        let place = (pair[1].parent_id.as_ref(), pair[1].branch_reason.as_ref());
        assert_eq!(place, (Some(&pair[0].generation_id), None), "way {way}, after turn {turn}");
        let context = [pair[0].prompt_tokens.as_slice(), &pair[0].sampled_tokens].concat();
        assert!(pair[1].prompt_tokens.starts_with(&context), "way {way}, after turn {turn}");
    }
}
