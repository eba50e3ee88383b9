//! A client of Google's generateContent.

use serde_json::{Value, json};

/// The items of a stream of server-sent events. An error among them is no event.
pub fn events(text: &str) -> Vec<Value> {
    let events = text.split("\n\n").filter(|event| !event.is_empty());
    let item = |event: &str| {
        let data = event.strip_prefix("data: ");
        let item: Value = serde_json::from_str(data.unwrap_or(event)).unwrap();
        assert_eq!(data.is_none(), item.get("error").is_some(), "{event}");
        item
    };
    events.map(item).collect()
}

/// The response that the items of a stream add up to, as Google's clients add them up: texts that follow each other are
/// one, and an empty one is none.
pub fn assembled(items: &[Value]) -> Value {
    let mut response = items.last().unwrap().clone();
    let mut parts: Vec<Value> = Vec::new();
    let mut logprobs = Vec::new();
    for item in items {
        let candidate = &item["candidates"][0];
        assert_eq!((&candidate["content"]["role"], &candidate["index"]), (&json!("model"), &json!(0)));
        for part in candidate["content"]["parts"].as_array().unwrap() {
            let text = part["text"].as_str();
            if text == Some("") {
                continue;
            }
            match (parts.last_mut(), text) {
                (Some(last), Some(text)) if last["text"].is_string() && last.get("thought") == part.get("thought") => {
                    last["text"] = json!(last["text"].as_str().unwrap().to_owned() + text);
                }
                _ => parts.push(part.clone()),
            }
        }
        logprobs.extend(candidate["logprobsResult"]["chosenCandidates"].as_array().into_iter().flatten().cloned());
    }
    if parts.is_empty() {
        parts.push(json!({ "text": "" }));
    }
    response["candidates"][0]["content"]["parts"] = json!(parts);
    if !logprobs.is_empty() {
        response["candidates"][0]["logprobsResult"] = json!({ "chosenCandidates": logprobs });
    }
    response
}
