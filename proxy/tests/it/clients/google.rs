//! An agent that is written with Google's own package, unchanged.

use std::process::Stdio;

use crate::common::Script;
use crate::common::clients::python;
use crate::common::conversations::assert_they_are_a_chain;
use crate::common::families::QWEN3;
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

/// What the model says, one call after another, why it ends, and what the agent is to see of it.
fn samples() -> Vec<(String, SamplingEnd, Value)> {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let broken = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}\n</tool_call>";
    let thought = |text: &str| json!({ "thought": text });
    let text = |text: &str| json!({ "text": text });
    let called = |arguments: Value| json!({ "call": "weather", "args": arguments });
    let stopped = |sampled: String, seen: Value| (sampled, SamplingEnd::StopToken, json!(["STOP", seen]));
    vec![
        stopped(
            QWEN3.turn.to_owned(),
            json!([thought("hm"), text("Looking."), called(json!({ "city": "Paris", "days": 2 }))]),
        ),
        stopped(
            format!("<think>\nmore\n</think>\n\n{call}\n{call}<|im_end|>"),
            json!([thought("more"), called(json!({})), called(json!({}))]),
        ),
        stopped((QWEN3.plain_turn)("It rains."), json!([thought("hm"), text("It rains.")])),
        stopped((QWEN3.plain_turn)("One HALT two"), json!([thought("hm"), text("One ")])),
        stopped(format!("<think>\nhm\n</think>\n\n{broken}<|im_end|>"), json!([thought("hm"), text(broken)])),
        ("<think>\nhm".to_owned(), SamplingEnd::Length, json!(["MAX_TOKENS", [thought("hm")]])),
    ]
}

#[tokio::test]
async fn googles_python_client_goes_through_tools_thoughts_and_errors() {
    for way in ["whole", "streamed"] {
        let setup = QWEN3.setup().await;
        for (sampled, reason, _) in samples() {
            setup.play(Script::Answer(setup.sampled(&sampled), reason));
        }
        setup.play(Script::Break(setup.sampled("<think>\nI am</think>So")));
        let (rollout, base) = setup.attempt().await;
        let home = tempfile::tempdir().unwrap();
        let mut agent = python("google_agent.py");
        agent.arg(way).stdin(Stdio::null()).env("HOME", home.path());
        agent.env("GOOGLE_GEMINI_BASE_URL", base.strip_suffix("/v1").unwrap()).env("GEMINI_API_KEY", "none");
        let ran = tokio::task::spawn_blocking(move || agent.output().unwrap()).await.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();

        let mut generations = setup.generations().await;
        let broken = generations.pop().unwrap();
        assert_eq!((broken.stop_reason.as_str(), generations.len()), ("error", samples().len()));
        let replies = samples().into_iter().zip(&generations).map(|((_, _, mut seen), generation)| {
            assert_eq!((&generation.rollout_id, generation.client_disconnected), (&rollout, false));
            seen.as_array_mut().unwrap().insert(1, json!(generation.sampled_tokens.len()));
            seen
        });
        assert_eq!(printed["replies"], json!(replies.collect::<Vec<Value>>()), "{way}");
        assert_they_are_a_chain(&generations[..3], 0);
        assert_eq!(printed["models"], json!(["models/tiny"]));
        assert!(printed["counted"].as_u64().unwrap() > 0);
        let (too_long, message) = (&printed["too_long"], printed["too_long"][2].as_str().unwrap());
        assert_eq!((&too_long[0], &too_long[1]), (&json!(400), &json!("INVALID_ARGUMENT")));
        assert!(message.starts_with("The input token count ("), "{message}");
        assert_eq!(printed["broken"], json!([500, "INTERNAL", "the model host failed: it broke"]));
    }
}
