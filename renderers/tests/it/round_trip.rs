//! What the formats write as a sampled turn is read back as the message that it was written of.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_renderers::{
    FormatOptions, NamedRenderer, Renderer, Termination, Tokenizer, TrainOnWhat, renderer_names,
};
use fulgurite_types::Message;
use serde_json::{Value, json};

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// The renderers of families, each with a tokenizer of its family.
fn renderers() -> Vec<NamedRenderer> {
    let families = [
        ("role_colon", "qwen3"),
        ("llama3", "llama3"),
        ("qwen3", "qwen3"),
        ("nemotron3", "qwen3"),
        ("deepseek", "deepseek"),
        ("glm", "glm"),
        ("kimi", "kimi"),
        ("gpt_oss", "gpt_oss"),
    ];
    let open = |name: &&str| {
        let (_, tokenizer) = families.iter().find(|(family, _)| name.starts_with(family))?;
        let tokenizer = Tokenizer::open(&vectors().join("tokenizers").join(tokenizer)).unwrap();
        Some(NamedRenderer::open(name, Arc::new(tokenizer), FormatOptions::default()).unwrap())
    };
    renderer_names().iter().filter_map(open).collect()
}

/// What a message says, whichever way it says it.
fn comparable(message: &Message) -> Value {
    let parsed: Value = serde_json::to_value(message).unwrap();
    let (mut text, mut reasoning) = (String::new(), String::new());
    reasoning += parsed["reasoning_content"].as_str().unwrap_or_default();
    text += parsed["content"].as_str().unwrap_or_default();
    for part in parsed["content"].as_array().into_iter().flatten() {
        text += part["text"].as_str().unwrap_or_default();
        reasoning += part["thinking"].as_str().unwrap_or_default();
    }
    let calls = message.tool_calls.iter().map(|call| {
        let arguments: Value = serde_json::from_str(call.function.arguments.as_str().unwrap()).unwrap();
        json!([call.function.name, arguments])
    });
    json!({"text": text.trim(), "reasoning": reasoning.trim(), "calls": calls.collect::<Vec<_>>()})
}

/// The tool that is called, as far as values alone do not tell their types: formats may write true as `True`.
fn typed_tool() -> Value {
    let properties = json!({"flag": {"type": "boolean"}, "note": {"type": "null"}});
    json!({"name": "get_weather", "parameters": {"type": "object", "properties": properties}})
}

#[test]
fn a_turn_is_read_as_what_it_was_written_of() {
    let conversations: Value =
        serde_json::from_str(&std::fs::read_to_string(vectors().join("cookbook/conversations.json")).unwrap()).unwrap();
    let mut checked = 0;
    let mut wrong = String::new();
    for renderer in renderers() {
        for (name, case) in conversations.as_object().unwrap() {
            // Text that holds `<think>` is read as reasoning; and gpt-oss ends its turn with the first call.
            let is_gpt_oss = renderer.name().starts_with("gpt_oss");
            if name == "thinking_string" || (is_gpt_oss && name == "parallel_tools") {
                continue;
            }
            let mut messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
            let Some(last) = messages.iter().rposition(Message::is_assistant) else { continue };
            messages.truncate(last + 1);
            for (index, call) in messages[last].tool_calls.iter_mut().enumerate() {
                // As Kimi's models name their calls.
                call.id = Some(format!("functions.{}:{index}", call.function.name));
            }
            let tools: Vec<Value> = case["tools"].as_array().cloned().unwrap_or_default();
            let written = renderer.render_supervised(&messages, &tools, &TrainOnWhat::LastAssistantMessage);
            // A format may refuse what it cannot write.
            let Ok(examples) = written else { continue };
            let example = examples.last().unwrap();
            let start = example.weights.iter().rposition(|weight| *weight == 0.0).map_or(0, |last| last + 1);
            let (prompt, sampled) = example.tokens.split_at(start);
            let parsed = renderer.parse(prompt, sampled, &[typed_tool()]);
            let (ours, mut theirs) = (comparable(&parsed.message()), comparable(&messages[last]));
            if ["deepseekv3", "deepseekv3_disable_thinking"].contains(&renderer.name()) {
                // Without thinking, reasoning is not written.
                theirs["reasoning"] = "".into();
            }
            if ours != theirs || parsed.termination != Termination::StopSequence {
                let text = renderer.tokenizer().decode(sampled);
                wrong += &format!("\n{} {name}: {text:?}\n  {ours}\n  {theirs}", renderer.name());
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(checked > 200, "{checked}");
}
