//! The named formats against tinker-cookbook's own output (`vectors/cookbook`), made with small invented tokenizers.
//!
//! Under `cookbook_exact` every case must be equal. By default every case must be equal too but for those that
//! `departures.rs` lists, each with its reason; a departure that does not show is a failure as well.

mod chat_templates;
mod departures;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use departures::departure;
use fulgurite_renderers::{FormatOptions, NamedRenderer, Renderer, Tokenizer, TrainOnWhat, WeightedTokens};
use fulgurite_types::Message;
use serde_json::Value;

/// Files of the vectors that named formats are held against.
const FILES: [&str; 38] = [
    "deepseekv3",
    "deepseekv3_disable_thinking",
    "deepseekv3_thinking",
    "deepseekv3_thinking__nostrip",
    "gpt_oss_high_reasoning",
    "gpt_oss_low_reasoning",
    "gpt_oss_medium_reasoning",
    "gpt_oss_no_sysprompt",
    "kimi_k2",
    "kimi_k25",
    "kimi_k25_disable_thinking",
    "kimi_k26",
    "kimi_k26_disable_thinking",
    "kimi_k26_preserve_thinking",
    "role_colon",
    "role_colon__llama3",
    "llama3",
    "qwen3",
    "qwen3__nostrip",
    "qwen3_disable_thinking",
    "qwen3_instruct",
    "qwen3_vl",
    "qwen3_vl_instruct",
    "qwen3_5",
    "qwen3_5__nostrip",
    "qwen3_5_disable_thinking",
    "qwen3_8_xhigh_reasoning",
    "qwen3_8_medium_reasoning",
    "qwen3_8_low_reasoning",
    "qwen3_8_disable_thinking",
    "nemotron3",
    "nemotron3_disable_thinking",
    "nemotron3_low_thinking",
    "nemotron3_preserve_thinking",
    "nemotron3_ultra",
    "nemotron3_ultra_disable_thinking",
    "nemotron3_ultra_medium_thinking",
    "nemotron3_ultra_preserve_thinking",
];

struct Conversation {
    messages: Vec<Message>,
    tools: Vec<Value>,
}

/// Files of `cookbook_tools`, which `vectors/make_cookbook_cases.py` makes.
const TOOL_FILES: [&str; 27] = [
    "deepseekv3",
    "deepseekv3_thinking",
    "deepseekv3_thinking__nostrip",
    "deepseekv4_1",
    "deepseekv4_1_disable_thinking",
    "deepseekv4_1_low_reasoning",
    "deepseekv4_1_max_reasoning",
    "deepseekv4_1_preserve_thinking",
    "glm5_3_high_reasoning",
    "glm5_3_low_reasoning",
    "glm5_3_max_reasoning",
    "gpt_oss_low_reasoning",
    "gpt_oss_no_sysprompt",
    "kimi_k2",
    "kimi_k25",
    "kimi_k25_disable_thinking",
    "kimi_k26_preserve_thinking",
    "llama3",
    "nemotron3",
    "nemotron3_ultra",
    "qwen3",
    "qwen3_5",
    "qwen3_5_preserve_thinking",
    "qwen3_8_low_reasoning",
    "qwen3_disable_thinking",
    "qwen3_instruct",
    "role_colon",
];

fn vectors(folder: &str, name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{folder}/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn conversations(folder: &str) -> BTreeMap<String, Conversation> {
    let read = |(name, case): (&String, &Value)| {
        let mut messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        if let Some(system) = case["system_prompt_for_tools"].as_str() {
            messages.insert(0, Message::text("system", system));
        }
        let tools = case["tools"].as_array().cloned().unwrap_or_default();
        (name.clone(), Conversation { messages, tools })
    };
    vectors(folder, "conversations").as_object().unwrap().iter().map(read).collect()
}

fn open(vectors: &Value, cookbook_exact: bool) -> NamedRenderer {
    let tokenizer = vectors["tokenizer"].as_str().unwrap().trim_start_matches("tok_");
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tokenizers").join(tokenizer);
    let current_date = vectors["current_date"].as_str().map(str::to_owned);
    let options = FormatOptions { cookbook_exact, current_date };
    let name = vectors["renderer"].as_str().unwrap();
    NamedRenderer::open(name, Arc::new(Tokenizer::open(&dir).unwrap()), options).unwrap()
}

fn train_on(mode: &str) -> TrainOnWhat {
    match mode {
        "last_assistant_message" => TrainOnWhat::LastAssistantMessage,
        "last_assistant_turn" => TrainOnWhat::LastAssistantTurn,
        "all_assistant_messages" => TrainOnWhat::AllAssistantMessages,
        "all_tokens" => TrainOnWhat::AllTokens,
        mode => panic!("{mode}"),
    }
}

/// Runs of tokens of one weight, as text.
fn segments(renderer: &NamedRenderer, example: &WeightedTokens) -> Value {
    let text = |(weight, tokens): (f32, &[u32])| serde_json::json!([weight, renderer.tokenizer().decode(tokens)]);
    example.runs().map(text).collect()
}

/// What is wrong with one case; `None` where it is equal.
type Difference = Option<String>;

fn compared(ours: Result<Value, String>, theirs: Result<Value, String>) -> Difference {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours == theirs => None,
        (Err(_), Err(_)) => None,
        (ours, theirs) => Some(format!("\n  ours   {ours:?}\n  theirs {theirs:?}")),
    }
}

fn prompt_difference(renderer: &NamedRenderer, conversation: &Conversation, expected: &Value) -> Difference {
    let ours = renderer.render_prompt(&conversation.messages, &conversation.tools);
    let text = |tokens: &[u32]| Value::from(renderer.tokenizer().decode(tokens));
    let pair = |tokens: Vec<u32>| serde_json::json!([text(&tokens), tokens]);
    let theirs = match expected.get("ids") {
        Some(ids) => Ok(pair(serde_json::from_value(ids.clone()).unwrap())),
        None => Err(expected["error"].to_string()),
    };
    compared(ours.map(|prompt| pair(prompt.tokens)).map_err(|error| error.to_string()), theirs)
}

fn supervised_difference(
    renderer: &NamedRenderer,
    conversation: &Conversation,
    mode: &str,
    expected: &Value,
) -> Difference {
    // The vectors were made of the conversation up to its last assistant message.
    let end = conversation.messages.iter().rposition(Message::is_assistant).map_or(0, |last| last + 1);
    let ours = renderer.render_supervised(&conversation.messages[..end], &conversation.tools, &train_on(mode));
    let with_count = |segments: Value, count: usize| serde_json::json!({"segments": segments, "n_tokens": count});
    let ours = ours.map(|examples| {
        examples.iter().map(|example| with_count(segments(renderer, example), example.tokens.len())).collect()
    });
    let theirs = if expected.is_array() { Ok(expected.clone()) } else { Err(expected["message"].to_string()) };
    compared(ours.map_err(|error| error.to_string()), theirs)
}

/// The differences of one file, by case.
fn differences(folder: &str, file: &str, cookbook_exact: bool) -> Vec<(String, String)> {
    let vectors = vectors(folder, file);
    let renderer = open(&vectors, cookbook_exact);
    let conversations = conversations(folder);
    let mut found = Vec::new();
    for (name, expected) in vectors["generation_prompt"].as_object().unwrap() {
        let difference = prompt_difference(&renderer, &conversations[name], expected);
        found.extend(difference.map(|difference| (format!("prompt {name}"), difference)));
    }
    for (key, expected) in vectors["supervised_examples"].as_object().unwrap() {
        let (name, mode) = key.split_once(':').unwrap();
        let difference = supervised_difference(&renderer, &conversations[name], mode, expected);
        found.extend(difference.map(|difference| (format!("supervised {key}"), difference)));
    }
    found
}

fn assert_exact(folder: &str, files: &[&str]) {
    let mut wrong = String::new();
    for file in files {
        let found = differences(folder, file, true);
        wrong.extend(found.iter().map(|(case, difference)| format!("\n{folder}/{file}: {case}{difference}")));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn cookbook_exact_is_the_cookbook() {
    assert_exact("cookbook", &FILES);
}

#[test]
fn cookbook_exact_is_the_cookbook_in_what_agents_do() {
    assert_exact("cookbook_tools", &TOOL_FILES);
}

#[test]
fn ours_is_the_cookbook_but_for_named_departures() {
    let mut wrong = String::new();
    for file in FILES {
        let found: BTreeMap<String, String> = differences("cookbook", file, false).into_iter().collect();
        let vectors = vectors("cookbook", file);
        let prompts = vectors["generation_prompt"].as_object().unwrap().keys().map(|name| format!("prompt {name}"));
        let supervised =
            vectors["supervised_examples"].as_object().unwrap().keys().map(|key| format!("supervised {key}"));
        for case in prompts.chain(supervised) {
            match (departure(file, &case), found.get(&case)) {
                (None, Some(difference)) => wrong += &format!("\n{file}: {case}{difference}"),
                (Some(reason), None) => wrong += &format!("\n{file}: {case} does not depart, though {reason}"),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
