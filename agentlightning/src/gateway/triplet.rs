//! Events as what a trainer makes triplets of: prompts and answers in tokens, and rewards.

use std::collections::HashMap;

use fulgurite_types::Event;
use serde_json::{Map, Value, json};

use super::events::{MODEL_REQUEST, REWARD};

/// Model calls and rewards alone, in their order. Of calls with the same prompt only the last is there, because the
/// others are taken for tries that failed.
pub(super) fn triplets(events: Vec<Event>) -> Vec<Event> {
    let events: Vec<Event> = events.into_iter().filter_map(triplet).collect();
    let last_of_prompt: HashMap<String, usize> =
        events.iter().enumerate().filter_map(|(index, event)| Some((prompt(event)?, index))).collect();
    let is_last =
        |(index, event): &(usize, Event)| prompt(event).is_none_or(|prompt| last_of_prompt[&prompt] == *index);
    events.into_iter().enumerate().filter(is_last).map(|(_, event)| event).collect()
}

/// The prompt of a model call, as text to compare.
fn prompt(event: &Event) -> Option<String> {
    (event.event_type == MODEL_REQUEST).then(|| event.data["prompt_token_ids"].to_string())
}

fn triplet(event: Event) -> Option<Event> {
    let data = match event.event_type.as_str() {
        MODEL_REQUEST => call(&event.data),
        REWARD => reward(&event.data),
        _ => return None,
    };
    Some(Event { data, ..event })
}

fn call(data: &Value) -> Value {
    let response = &data["response"];
    let choice = &response["choices"][0];
    let tokens = |places: [&Value; 2]| places.into_iter().find(|place| place.is_array()).cloned().unwrap_or(json!([]));
    let mut call = json!({
        "prompt_token_ids": tokens([&response["prompt_token_ids"], &choice["prompt_token_ids"]]),
        "response_token_ids": tokens([&choice["token_ids"], &Value::Null]),
        "response_log_probs": logprobs(&choice["logprobs"]),
        "server": {"model": data["server"]["model"], "version": data["server"]["version"]},
        "http_status": data["http_status"],
        "status": data["status"],
    });
    if let Some(error) = response.get("error") {
        call["error"] = error.clone();
    }
    call
}

/// The logprob of each sampled token, of a chat's answer or of a completion's; null if one is missing.
fn logprobs(logprobs: &Value) -> Value {
    let found: Option<Vec<f64>> = match (&logprobs["content"], &logprobs["token_logprobs"]) {
        (Value::Array(content), _) => content.iter().map(|token| token["logprob"].as_f64()).collect(),
        (_, Value::Array(values)) => values.iter().map(Value::as_f64).collect(),
        _ => None,
    };
    json!(found)
}

fn reward(data: &Value) -> Value {
    let stated = |key: &str| Some((key.to_owned(), data.get(key).filter(|value| !value.is_null())?.clone()));
    let value = Some(("value".to_owned(), data["value"].clone()));
    [value, stated("source"), stated("reason")].into_iter().flatten().collect::<Map<_, _>>().into()
}
