//! Agents that are written with Anthropic's own packages, in Python and in JavaScript, unchanged.

use std::process::{Command, Stdio};

use crate::common::Script;
use crate::common::clients::{node, python};
use crate::common::families::QWEN3;
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

/// What the model says, one call after another, and why it ends.
fn samples() -> Vec<(String, SamplingEnd)> {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let broken = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}\n</tool_call>";
    let stopped = |sampled: String| (sampled, SamplingEnd::StopToken);
    vec![
        stopped(QWEN3.turn.to_owned()),
        stopped(format!("<think>\nmore\n</think>\n\n{call}\n{call}<|im_end|>")),
        stopped((QWEN3.plain_turn)("It rains.")),
        stopped("<|im_end|>".to_owned()),
        stopped((QWEN3.plain_turn)("One HALT two")),
        stopped(format!("<think>\nhm\n</think>\n\n{broken}<|im_end|>")),
        ("<think>\nhm".to_owned(), SamplingEnd::Length),
    ]
}

/// What the agent is to see of each.
fn seen() -> Value {
    let thought = |thinking: &str| json!({ "type": "thinking", "thinking": thinking });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let call = |input: Value| json!({ "type": "tool_use", "name": "weather", "input": input });
    let broken = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}\n</tool_call>";
    json!([
        ["tool_use", null, [thought("hm"), text("Looking."), call(json!({ "city": "Paris", "days": 2 }))]],
        ["tool_use", null, [thought("more"), call(json!({})), call(json!({}))]],
        ["end_turn", null, [thought("hm"), text("It rains.")]],
        ["end_turn", null, [text("")]],
        ["stop_sequence", "HALT", [thought("hm"), text("One ")]],
        ["end_turn", null, [thought("hm"), text(broken)]],
        ["max_tokens", null, [thought("hm")]],
    ])
}

async fn run(mut agent: Command, way: &str) {
    let setup = QWEN3.setup().await;
    for (sampled, reason) in samples() {
        setup.play(Script::Answer(setup.sampled(&sampled), reason));
    }
    setup.play(Script::Break(setup.sampled("<think>\nI am</think>So")));
    let (rollout, base) = setup.attempt().await;
    let home = tempfile::tempdir().unwrap();
    agent.arg(way).stdin(Stdio::null()).env("HOME", home.path());
    agent.env("ANTHROPIC_BASE_URL", base.strip_suffix("/v1").unwrap()).env("ANTHROPIC_API_KEY", "none");
    let ran = tokio::task::spawn_blocking(move || agent.output().unwrap()).await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();

    let mut generations = setup.generations().await;
    let broken = generations.pop().unwrap();
    assert_eq!((broken.stop_reason.as_str(), generations.len()), ("error", samples().len()));
    let mut replies = seen();
    for (reply, generation) in replies.as_array_mut().unwrap().iter_mut().zip(&generations) {
        assert_eq!((&generation.rollout_id, generation.client_disconnected), (&rollout, false));
        reply.as_array_mut().unwrap().insert(2, json!(generation.sampled_tokens.len()));
    }
    assert_eq!(printed["replies"], replies, "{way}");
    assert_eq!(
        (&printed["models"], &printed["counted"]),
        (&json!(["tiny"]), &json!(generations[3].prompt_tokens.len()))
    );
    assert_eq!(printed["too_long"]["type"], "invalid_request_error");
    assert!(printed["too_long"]["message"].as_str().unwrap().starts_with("prompt is too long: "), "{printed}");
    assert_eq!(printed["broken"], json!({ "type": "api_error", "message": "the model host failed: it broke" }));
    // What the agent sent back is what was said: each call's arguments, and what came of it.
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["gen_ai.prompt.1.content"], "Well?");
    let prompt = setup.renderer.tokenizer().decode(&generations[2].prompt_tokens);
    for part in ["{\"city\": \"Paris\", \"days\": 2}", "weather {\"city\": \"Paris\", \"days\": 2}", "weather {}"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
}

#[tokio::test]
async fn anthropics_python_client_goes_through_tools_thinking_and_errors() {
    for way in ["whole", "streamed"] {
        run(python("anthropic_agent.py"), way).await;
    }
}

#[tokio::test]
async fn anthropics_node_client_goes_through_tools_thinking_and_errors() {
    for way in ["whole", "streamed"] {
        match node("anthropic_agent.mjs", "@anthropic-ai/sdk") {
            Some(agent) => run(agent, way).await,
            None => eprintln!("not tried: tests/setup found no npm to install Anthropic's client for Node with"),
        }
    }
}
