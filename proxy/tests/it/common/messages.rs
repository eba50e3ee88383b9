//! A client of Anthropic's Messages.

use serde_json::{Value, json};

/// The events of a stream, each of which has its own name.
pub fn events(text: &str) -> Vec<Value> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").unwrap_or_else(|| panic!("{event:?}"));
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    assert!(text.is_empty() || text.ends_with("\n\n"));
    text.split_terminator("\n\n").map(event).collect()
}

/// The message that the events of a stream add up to, as Anthropic's own clients add them up, but for calls whose
/// arguments nobody can read: a stream cannot take back what it sent of a call before it broke.
pub fn assembled(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let (mut open, mut json) = (false, String::new());
    let mut broken = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert!(!std::mem::replace(&mut open, true), "one block at a time");
                assert_eq!(event["index"], content.len());
                content.push(event["content_block"].clone());
                json.clear();
            }
            "content_block_delta" => {
                assert!(open);
                let block = &mut message["content"][event["index"].as_u64().unwrap() as usize];
                add(block, &event["delta"], &mut json);
            }
            "content_block_stop" => {
                assert!(std::mem::take(&mut open));
                let index = event["index"].as_u64().unwrap() as usize;
                if message["content"][index]["type"] == "tool_use" && serde_json::from_str::<Value>(&json).is_err() {
                    assert!(json.ends_with(",]") || json.ends_with(",}"), "{json}");
                    broken.push(index);
                }
            }
            "message_delta" => {
                assert!(!open);
                for key in ["stop_reason", "stop_sequence"] {
                    message[key] = event["delta"][key].clone();
                }
                for key in ["usage", "token_ids", "logprobs"] {
                    if let Some(value) = event.get(key) {
                        message[key] = value.clone();
                    }
                }
            }
            "ping" | "message_stop" => {}
            other => panic!("{other}"),
        }
    }
    if !broken.is_empty() {
        let content = std::mem::take(message["content"].as_array_mut().unwrap());
        let kept = content.into_iter().enumerate().filter(|(index, _)| !broken.contains(index));
        message["content"] = kept.fold(json!([]), |kept, (_, block)| with_block(kept, block));
    }
    message
}

/// Content with one block more. Text on both sides of a call that broke is one text.
fn with_block(mut content: Value, block: Value) -> Value {
    let blocks = content.as_array_mut().unwrap();
    match blocks.last_mut() {
        Some(last) if last["type"] == "text" && block["type"] == "text" => {
            last["text"] = json!(last["text"].as_str().unwrap().to_owned() + block["text"].as_str().unwrap());
        }
        _ => blocks.push(block),
    }
    content
}

fn add(block: &mut Value, delta: &Value, json: &mut String) {
    let (kind, field) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", "text"),
        "thinking_delta" => ("thinking", "thinking"),
        "signature_delta" => ("thinking", "signature"),
        "input_json_delta" => {
            assert_eq!(block["type"], "tool_use");
            json.push_str(delta["partial_json"].as_str().unwrap());
            if let Ok(input) = serde_json::from_str(json) {
                block["input"] = input;
            }
            return;
        }
        other => panic!("{other}"),
    };
    assert_eq!(block["type"], kind);
    block[field] = json!(block[field].as_str().unwrap().to_owned() + delta[field].as_str().unwrap());
}
