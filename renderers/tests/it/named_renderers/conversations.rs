//! Renderers and random conversations.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_renderers::{FormatOptions, NamedRenderer, RenderError, Tokenizer};
use fulgurite_types::Message;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The renderers, each with a tokenizer that has its tokens.
pub const RENDERERS: [(&str, &str); 38] = [
    ("deepseekv3", "deepseek"),
    ("deepseekv3_thinking", "deepseek"),
    ("deepseekv3_thinking#strip=False", "deepseek"),
    ("deepseekv4_1", "deepseek"),
    ("deepseekv4_1_low_reasoning", "deepseek"),
    ("deepseekv4_1_disable_thinking", "deepseek"),
    ("deepseekv4_1_preserve_thinking", "deepseek"),
    ("glm5_3_max_reasoning", "glm"),
    ("glm5_3_low_reasoning", "glm"),
    ("kimi_k2", "kimi"),
    ("kimi_k25", "kimi"),
    ("kimi_k26_disable_thinking", "kimi"),
    ("kimi_k26_preserve_thinking", "kimi"),
    ("gpt_oss_no_sysprompt", "gpt_oss"),
    ("gpt_oss_low_reasoning", "gpt_oss"),
    ("gpt_oss_high_reasoning", "gpt_oss"),
    ("qwen3", "qwen3"),
    ("qwen3#strip=False", "qwen3"),
    ("qwen3_disable_thinking", "qwen3"),
    ("qwen3_instruct", "qwen3"),
    ("qwen3_vl", "qwen3"),
    ("qwen3_vl_instruct", "qwen3"),
    ("qwen3_5", "qwen3"),
    ("qwen3_5#strip=False", "qwen3"),
    ("qwen3_5_disable_thinking", "qwen3"),
    ("qwen3_5_preserve_thinking", "qwen3"),
    ("qwen3_8_xhigh_reasoning", "qwen3"),
    ("qwen3_8_medium_reasoning", "qwen3"),
    ("qwen3_8_low_reasoning", "qwen3"),
    ("qwen3_8_disable_thinking", "qwen3"),
    ("nemotron3", "qwen3"),
    ("nemotron3_disable_thinking", "qwen3"),
    ("nemotron3_low_thinking", "qwen3"),
    ("nemotron3_preserve_thinking", "qwen3"),
    ("nemotron3_ultra", "qwen3"),
    ("nemotron3_ultra_disable_thinking", "qwen3"),
    ("nemotron3_ultra_medium_thinking", "qwen3"),
    ("nemotron3_ultra_preserve_thinking", "qwen3"),
];

fn tokenizer_dir(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tokenizers").join(name)
}

/// The renderer of a name, by the tokenizer that [`RENDERERS`] gives it.
pub fn open(name: &str) -> NamedRenderer {
    let (_, tokenizer) = RENDERERS.iter().find(|(renderer, _)| *renderer == name).unwrap();
    open_with(name, tokenizer, FormatOptions { current_date: Some("2026-01-31".into()), ..FormatOptions::default() })
}

pub fn open_with(name: &str, tokenizer: &str, options: FormatOptions) -> NamedRenderer {
    try_open(name, tokenizer, options).unwrap()
}

pub fn try_open(name: &str, tokenizer: &str, options: FormatOptions) -> Result<NamedRenderer, RenderError> {
    NamedRenderer::open(name, Arc::new(Tokenizer::open(&tokenizer_dir(tokenizer)).unwrap()), options)
}

/// Texts and ids of the control tokens of a tokenizer.
pub fn control_tokens(tokenizer: &str) -> Vec<(String, u32)> {
    let path = tokenizer_dir(tokenizer).join("tokenizer.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let token = |token: &Value| (token["content"].as_str().unwrap().to_owned(), token["id"].as_u64().unwrap() as u32);
    json["added_tokens"].as_array().unwrap().iter().map(token).collect()
}

/// One message of a conversation without its texts.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    User,
    /// Reasoning or none, and so many calls, each of which is answered.
    Assistant {
        thinks: bool,
        calls: usize,
    },
}

pub fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let shape = prop_oneof![
        Just(Shape::User),
        (any::<bool>(), 0_usize..3).prop_map(|(thinks, calls)| Shape::Assistant { thinks, calls }),
    ];
    proptest::collection::vec(shape, 1..6)
}

/// A conversation of a shape whose texts are `text(0)`, `text(1)` and so on.
pub fn conversation(shapes: &[Shape], has_system: bool, text: &dyn Fn(usize) -> String) -> Vec<Message> {
    let mut count = 0;
    let mut next = || {
        count += 1;
        text(count - 1)
    };
    let mut messages = Vec::new();
    if has_system {
        messages.push(json!({"role": "system", "content": next()}));
    }
    messages.push(json!({"role": "user", "content": next()}));
    for shape in shapes {
        match shape {
            Shape::User => messages.push(json!({"role": "user", "content": [{"type": "text", "text": next()}]})),
            Shape::Assistant { thinks, calls } => {
                let ids: Vec<String> = (0..*calls).map(|call| format!("{}{}:{call}", next(), messages.len())).collect();
                let name = next();
                let call = |id: &String| json!({"id": id, "type": "function", "function": {"name": name, "arguments": json!({"a": name}).to_string()}});
                let mut message = json!({"role": "assistant", "content": [{"type": "text", "text": next()}]});
                message["tool_calls"] = ids.iter().map(call).collect();
                if *thinks {
                    message["reasoning_content"] = next().into();
                } else {
                    // Without reasoning beside it, text that begins with a block of reasoning is read as that.
                    message["content"] = format!("-{}", next().replace("</think>", "")).into();
                }
                messages.push(message);
                messages.extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": next()})));
            }
        }
    }
    serde_json::from_value(messages.into()).unwrap()
}

/// A tool whose schema holds a text everywhere.
pub fn tools(text: &str) -> Vec<Value> {
    let property = json!({"type": "string", "description": text, "enum": [text], "default": text});
    let parameters = json!({"type": "object", "properties": {"a": property}});
    vec![json!({"type": "function", "function": {"name": "f", "description": text, "parameters": parameters}})]
}
