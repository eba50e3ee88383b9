//! Every field that an API's own description has is taken, or refused by its name; none is unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Script, Setup};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::{ProxyOptions, UnknownFields};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Schema {
    fields: Vec<String>,
    /// The words that a field may be, or hold.
    values: BTreeMap<String, Vec<String>>,
}

fn schemas() -> BTreeMap<String, Vec<Schema>> {
    serde_json::from_str(include_str!("schema_fields.json")).unwrap()
}

fn smallest(endpoint: &str) -> Value {
    let messages = json!([{ "role": "user", "content": "17" }]);
    match endpoint {
        "chat/completions" => json!({ "model": "tiny", "messages": messages }),
        "completions" => json!({ "model": "tiny", "prompt": "17" }),
        "responses" => json!({ "model": "tiny", "input": "17" }),
        "messages" => json!({ "model": "tiny", "max_tokens": 8, "messages": messages }),
        other => panic!("{other}"),
    }
}

/// The status of an endpoint's answer to its smallest request with that field. A refusal must name the field.
async fn status(setup: &Setup, endpoint: &str, field: &str, value: &Value) -> u16 {
    let mut body = smallest(endpoint);
    body[field] = value.clone();
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let response = setup.client.post(format!("{}/v1/{endpoint}", setup.url)).json(&body).send().await.unwrap();
    setup.sampler.scripts.lock().unwrap().clear();
    let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
    assert!([200, 400].contains(&status), "{endpoint} {body}: {status} {text}");
    if status == 400 {
        assert!(
            text.contains(field) && !text.contains(&format!("{field} is not known here")),
            "{endpoint} {body}: {text}"
        );
    }
    status
}

async fn strict() -> Setup {
    Setup::with_options(ProxyOptions { unknown_fields: UnknownFields::Refuse, ..ProxyOptions::default() }).await
}

#[tokio::test]
async fn no_field_of_a_schema_is_unknown_whatever_it_holds() {
    let setup = strict().await;
    for (endpoint, schemas) in schemas() {
        let fields: BTreeSet<String> = schemas.into_iter().flat_map(|schema| schema.fields).collect();
        // Which model is called is read before the dialect is.
        for field in fields.iter().filter(|field| *field != "model") {
            status(&setup, &endpoint, field, &json!({ "odd": true })).await;
        }
    }
}

#[tokio::test]
async fn each_word_that_a_schema_allows_is_taken_but_those_that_ask_for_what_no_model_here_can() {
    let setup = strict().await;
    let mut refused = BTreeSet::new();
    for (endpoint, schemas) in schemas() {
        for (field, words) in schemas.into_iter().flat_map(|schema| schema.values) {
            for word in words {
                let is_list = ["include", "modalities"].contains(&field.as_str());
                let value = if is_list { json!([word]) } else { json!(word) };
                // That host can force no call, and that a call is forced is never left out of account.
                if status(&setup, &endpoint, &field, &value).await == 400 && field != "tool_choice" {
                    refused.insert(format!("{endpoint} {field} {word}"));
                }
            }
        }
    }
    assert_eq!(refused, BTreeSet::from(["chat/completions modalities audio".to_owned()]));
}

#[tokio::test]
async fn what_would_change_an_answer_is_refused_and_its_neutral_values_are_taken() {
    let setup = strict().await;
    for (endpoint, field, value, expected) in [
        ("chat/completions", "watermarking", json!(true), 400),
        ("chat/completions", "watermarking", json!(false), 200),
        ("chat/completions", "vllm_xargs", json!({ "a": 1 }), 400),
        ("chat/completions", "vllm_xargs", json!({}), 200),
        ("chat/completions", "logprob_token_ids", json!([1]), 400),
        ("chat/completions", "add_special_tokens", json!(true), 400),
        ("chat/completions", "stream_interval", json!(4), 200),
        ("completions", "response_format", json!({ "type": "json_object" }), 400),
        ("completions", "response_format", json!({ "type": "text" }), 200),
        ("completions", "structured_outputs", json!({ "regex": "a" }), 400),
        ("responses", "structured_outputs", json!({ "regex": "a" }), 400),
        ("responses", "previous_input_messages", json!([{ "role": "user" }]), 400),
        ("responses", "background_options", json!({}), 200),
        ("messages", "compaction", json!({ "type": "enabled" }), 400),
        ("messages", "thread", json!({ "type": "create" }), 400),
        ("messages", "response_format", json!({ "type": "json_object" }), 400),
        ("messages", "workspace_id", json!("wrkspc_1"), 200),
    ] {
        assert_eq!(status(&setup, endpoint, field, &value).await, expected, "{endpoint} {field} {value}");
    }
}

type Names = &'static [&'static str];

/// An endpoint, one more field of its smallest request with its JSON, what inside of it has no effect, and what of that is
/// not known.
type Nested = (&'static str, &'static str, &'static str, Names, Names);

const NESTED: [Nested; 17] = [
    (
        "responses",
        "include",
        r#"["reasoning.encrypted_content", "web_search_call.results", "odd.word"]"#,
        &["include.web_search_call.results", "include.odd.word"],
        &["include.odd.word"],
    ),
    (
        "responses",
        "reasoning",
        r#"{"summary": "auto", "context": "all_turns", "mode": "standard", "odd": 1}"#,
        &["reasoning.context", "reasoning.odd"],
        &["reasoning.odd"],
    ),
    ("responses", "reasoning", r#"{"generate_summary": "auto", "context": "auto", "odd": null}"#, &[], &[]),
    (
        "responses",
        "text",
        r#"{"format": {"type": "text", "description": "d", "odd": 1}, "odd": 2}"#,
        &["text.format.description", "text.format.odd", "text.odd"],
        &["text.format.odd", "text.odd"],
    ),
    (
        "responses",
        "stream_options",
        r#"{"include_obfuscation": true, "odd": 1}"#,
        &["stream_options.include_obfuscation", "stream_options.odd"],
        &["stream_options.odd"],
    ),
    (
        "responses",
        "tool_choice",
        r#"{"type": "allowed_tools", "mode": "auto", "tools": [], "odd": 1}"#,
        &["tool_choice.odd"],
        &["tool_choice.odd"],
    ),
    ("responses", "output_format", r#"{"type": "text"}"#, &["output_format"], &["output_format"]),
    (
        "chat/completions",
        "stream_options",
        r#"{"include_usage": true, "include_obfuscation": false, "continuous_usage_stats": true, "odd": 1}"#,
        &["stream_options.continuous_usage_stats", "stream_options.odd"],
        &["stream_options.odd"],
    ),
    (
        "chat/completions",
        "response_format",
        r#"{"type": "text", "json_schema": {"name": "n", "description": "d", "odd": 1}, "odd": 2}"#,
        &["response_format.json_schema.description", "response_format.json_schema.odd", "response_format.odd"],
        &["response_format.json_schema.odd", "response_format.odd"],
    ),
    (
        "chat/completions",
        "tool_choice",
        r#"{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [], "odd": 1}}"#,
        &["tool_choice.allowed_tools.odd"],
        &["tool_choice.allowed_tools.odd"],
    ),
    ("chat/completions", "thinking", r#"{"odd": 1}"#, &["thinking.odd"], &["thinking.odd"]),
    ("chat/completions", "reasoning", r#"{"exclude": true}"#, &["reasoning.exclude"], &["reasoning.exclude"]),
    ("chat/completions", "include", r#"["usage"]"#, &["include"], &["include"]),
    ("completions", "stream_options", r#"{"odd": 1}"#, &["stream_options.odd"], &["stream_options.odd"]),
    (
        "messages",
        "output_config",
        r#"{"task_budget": {"type": "tokens"}, "format": null, "odd": 1}"#,
        &["output_config.task_budget", "output_config.odd"],
        &["output_config.odd"],
    ),
    ("messages", "tool_choice", r#"{"type": "auto", "odd": 1}"#, &["tool_choice.odd"], &["tool_choice.odd"]),
    (
        "messages",
        "thinking",
        r#"{"type": "adaptive", "display": "omitted", "block_binding": {}, "odd": 1}"#,
        &["thinking.type", "thinking.block_binding", "thinking.odd"],
        &["thinking.odd"],
    ),
];

#[tokio::test]
async fn fields_inside_of_objects_are_taken_or_named_and_refused_where_that_is_configured() {
    let (lenient, strict) = (Setup::new(vec![]).await, strict().await);
    for (endpoint, field, value, ignored, unknown) in NESTED {
        let value: Value = serde_json::from_str(value).unwrap();
        let mut body = smallest(endpoint);
        body[field] = value.clone();
        lenient.play(Script::Answer(vec![lenient.stop()], SamplingEnd::StopToken));
        let response = lenient.client.post(format!("{}/v1/{endpoint}", lenient.url)).json(&body).send().await.unwrap();
        let named = response.headers().get("x-fulgurite-ignored").map(|named| named.to_str().unwrap().to_owned());
        assert_eq!(response.status(), 200, "{endpoint} {body}");
        assert_eq!(named.unwrap_or_default(), ignored.join(", "), "{endpoint} {body}");

        strict.play(Script::Answer(vec![strict.stop()], SamplingEnd::StopToken));
        let response = strict.client.post(format!("{}/v1/{endpoint}", strict.url)).json(&body).send().await.unwrap();
        strict.sampler.scripts.lock().unwrap().clear();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        match unknown.first() {
            None => assert_eq!(status, 200, "{endpoint} {body}: {text}"),
            Some(first) => {
                assert_eq!(status, 400, "{endpoint} {body}: {text}");
                assert!(text.contains(&format!("{first} is not known here")), "{endpoint} {body}: {text}");
            }
        }
    }
    for (endpoint, field, value) in [
        ("responses", "include", json!("reasoning.encrypted_content")),
        ("responses", "include", json!([1])),
        ("responses", "reasoning", json!("high")),
        ("responses", "text", json!(["format"])),
        ("messages", "output_config", json!("low")),
        ("messages", "mcp_servers", json!({ "odd": 1 })),
        ("chat/completions", "stream_options", json!({ "include_usage": "yes" })),
    ] {
        assert_eq!(status(&lenient, endpoint, field, &value).await, 400, "{endpoint} {field} {value}");
    }
}
