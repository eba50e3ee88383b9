//! The lists of fields held against what the APIs' own descriptions have: `tests/it/dialects/schema_fields.json`, which
//! `tests/schema_fields.py` writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::field_checks::BINDING;
use super::field_kinds::{HINTS, NEUTRAL, READ_ELSEWHERE};

#[derive(Deserialize)]
struct Schema {
    source: String,
    fields: Vec<String>,
}

/// What Chat Completions and Completions read alike.
const SAMPLING: [&str; 15] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "model",
    "n",
    "presence_penalty",
    "return_token_ids",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_k",
    "top_p",
];

/// The fields that an endpoint's own reader takes, or refuses by name.
fn read_by(endpoint: &str) -> Vec<&'static str> {
    let own: &[&str] = match endpoint {
        "chat/completions" => &[
            "function_call",
            "functions",
            "max_completion_tokens",
            "messages",
            "parallel_tool_calls",
            "response_format",
            "tool_choice",
            "tools",
            "top_logprobs",
        ],
        "completions" => &["best_of", "echo", "prompt", "suffix"],
        "responses" => {
            return vec![
                "background",
                "conversation",
                "input",
                "instructions",
                "max_output_tokens",
                "model",
                "previous_response_id",
                "prompt",
                "return_token_ids",
                "seed",
                "stream",
                "temperature",
                "tool_choice",
                "tools",
                "top_k",
                "top_logprobs",
                "top_p",
            ];
        }
        "messages" => {
            return vec![
                "max_tokens",
                "messages",
                "model",
                "return_token_ids",
                "seed",
                "stop_sequences",
                "stream",
                "system",
                "temperature",
                "tool_choice",
                "tools",
                "top_k",
                "top_p",
            ];
        }
        other => panic!("{other} has no reader"),
    };
    [own, &SAMPLING].concat()
}

/// Names of the lists that stand in no schema, and who has them.
const OTHER_SERVERS: [(&str, &str); 11] = [
    ("client_metadata", "Codex sends it with its Responses"),
    ("guided_choice", "vLLM before structured_outputs"),
    ("guided_grammar", "vLLM before structured_outputs"),
    ("guided_json", "vLLM before structured_outputs"),
    ("guided_regex", "vLLM before structured_outputs"),
    ("logits_processors", "vLLM before its second engine"),
    ("max_thinking_tokens", "vLLM's and SGLang's older name of thinking_token_budget"),
    ("output_format", "Anthropic's older name of output_config.format"),
    ("separate_reasoning", "SGLang"),
    ("top_a", "OpenRouter"),
    ("typical_p", "Text Generation Inference and llama.cpp"),
];

fn schemas() -> BTreeMap<String, Vec<Schema>> {
    serde_json::from_str(include_str!("../../tests/it/dialects/schema_fields.json")).unwrap()
}

fn listed() -> Vec<&'static str> {
    let binding = BINDING.iter().map(|(name, ..)| *name);
    let hints = HINTS.iter().map(|(name, _)| *name);
    let elsewhere = READ_ELSEWHERE.iter().map(|(name, _)| *name);
    binding.chain(hints).chain(NEUTRAL).chain(elsewhere).collect()
}

#[test]
fn no_field_is_of_two_kinds() {
    let mut seen = BTreeSet::new();
    for name in listed() {
        assert!(seen.insert(name), "{name} stands in two lists");
    }
}

#[test]
fn each_field_of_each_schema_is_read_or_listed() {
    let listed = listed();
    for (endpoint, schemas) in schemas() {
        let read = read_by(&endpoint);
        for Schema { source, fields } in schemas {
            assert!(!fields.is_empty(), "{source}");
            let unknown =
                fields.iter().filter(|name| !read.contains(&name.as_str()) && !listed.contains(&name.as_str()));
            assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new(), "{endpoint}, {source}");
        }
    }
}

#[test]
fn each_listed_field_is_of_a_schema_or_of_a_server_that_is_named() {
    let schemas = schemas();
    let known: BTreeSet<&str> =
        schemas.values().flatten().flat_map(|schema| &schema.fields).map(String::as_str).collect();
    let others: BTreeSet<&str> = OTHER_SERVERS.iter().map(|(name, _)| *name).collect();
    for name in listed() {
        assert!(known.contains(name) != others.contains(name), "{name}");
    }
    assert!(others.iter().all(|name| listed().contains(name)), "{others:?}");
}
