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
        assert!(text.contains(field) && !text.contains("is not known here"), "{endpoint} {body}: {text}");
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
