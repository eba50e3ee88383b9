//! Any JSON object as a request of every dialect: each reads it or refuses it, and the same way each time.

#![allow(clippy::panic, reason = "a fuzzer knows a failure by its panic")]

use serde_json::{Map, Value};
use uuid::Uuid;

use super::anthropic::error::RequestId;
use super::openai::responses::compaction::compact_request;
use super::openai::responses::earlier_responses::EarlierResponses;
use super::openai::responses::response_request;
use super::openai::{chat_request, completion_request};
use super::{anthropic, google, vllm};
use crate::error::ProxyError;
use crate::requests::exact_json::ExactValues;
use crate::requests::model_request::ModelRequest;

/// The request as every dialect reads it.
fn read_by_all(body: &Map<String, Value>, bytes: &[u8]) -> Vec<Result<ModelRequest, ProxyError>> {
    let exact = ExactValues::read(bytes, &[anthropic::CALL_INPUTS]);
    let earlier = EarlierResponses::default();
    vec![
        chat_request::read(body.clone()),
        completion_request::read(body.clone()),
        response_request::read(body.clone(), &earlier),
        compact_request::read(body.clone(), &earlier),
        anthropic::message_request::read(body.clone(), &exact, true, RequestId::of(Uuid::nil())),
        google::generate_request::read(body.clone(), "model".to_owned(), None, &exact),
        vllm::generate_request::read(body.clone(), &[2]),
    ]
}

/// Reads the bytes of a body in every dialect, twice.
///
/// # Panics
///
/// If a dialect reads the body once and refuses it once, or reads two requests from it.
pub fn fuzz_requests(bytes: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return };
    for (first, again) in read_by_all(&body, bytes).into_iter().zip(read_by_all(&body, bytes)) {
        match (first, again) {
            (Ok(first), Ok(again)) => {
                assert_eq!(first.digest, again.digest);
                assert_eq!(format!("{:?}", first.prompt), format!("{:?}", again.prompt));
            }
            (Err(first), Err(again)) => assert_eq!(first.to_string(), again.to_string()),
            _ => panic!("it was read once and refused once: {body:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{hash_map, vec};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::fuzz_requests;

    /// Names that mean something to some dialect, so that requests get past the first check.
    const NAMES: [&str; 40] = [
        "arguments",
        "call_id",
        "content",
        "contents",
        "function",
        "functionCall",
        "functionDeclarations",
        "functionResponse",
        "generationConfig",
        "id",
        "input",
        "instructions",
        "json_schema",
        "max_tokens",
        "messages",
        "model",
        "name",
        "parameters",
        "parts",
        "previous_response_id",
        "prompt",
        "response_format",
        "responseSchema",
        "role",
        "sampling_params",
        "schema",
        "seed",
        "stop",
        "stream",
        "system",
        "temperature",
        "text",
        "thinking",
        "token_ids",
        "tool_calls",
        "tool_choice",
        "tools",
        "top_logprobs",
        "tool_use_id",
        "type",
    ];

    /// Values that mean something to some dialect.
    const WORDS: [&str; 16] = [
        "",
        "assistant",
        "auto",
        "custom",
        "enabled",
        "function",
        "function_call",
        "input_text",
        "item_reference",
        "json_schema",
        "model",
        "object",
        "text",
        "tool_result",
        "tool_use",
        "user",
    ];

    fn any_value() -> impl Strategy<Value = Value> {
        let word = proptest::sample::select(&WORDS[..]).prop_map(|word| json!(word));
        let leaf = prop_oneof![
            4 => word,
            1 => any::<String>().prop_map(Value::from),
            1 => any::<bool>().prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            1 => (-4.0..300.0).prop_map(Value::from),
            1 => Just(Value::Null),
        ];
        leaf.prop_recursive(5, 48, 6, |inner| {
            prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), any_object(inner).prop_map(Value::from)]
        })
    }

    fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        let named = hash_map(proptest::sample::select(&NAMES[..]), value, 0..6);
        named.prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    proptest! {
        #[test]
        fn any_object_is_read_or_refused_and_the_same_way_again(
            fields in any_object(any_value()),
            content in any_value(),
            given in proptest::sample::select(&["messages", "contents", "input", "prompt", "none"][..]),
        ) {
            let mut body = fields;
            body.insert("model".to_owned(), json!("tiny"));
            body.insert(given.to_owned(), json!([{ "role": "user", "content": content.clone(), "parts": [content] }]));
            fuzz_requests(&serde_json::to_vec(&body).unwrap());
        }
    }
}
