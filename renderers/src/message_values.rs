use minijinja::Value;
use serde_json::{Map, Value as Json};

use crate::python_text::{from_json, object};
use crate::{Content, Message, ToolCall};

/// Messages as templates see them: what [`from_json`] makes of their JSON, without making the JSON first.
pub(crate) fn from_messages(messages: &[Message]) -> Value {
    messages.iter().map(from_message).collect()
}

fn from_message(message: &Message) -> Value {
    let mut fields =
        vec![(Value::from("role"), Value::from(&*message.role)), (Value::from("content"), content(message))];
    let optional = [("name", &message.name), ("tool_call_id", &message.tool_call_id)];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.into(), Value::from(value.as_deref()?)))));
    if !message.tool_calls.is_empty() {
        fields.push((Value::from("tool_calls"), message.tool_calls.iter().map(from_tool_call).collect()));
    }
    fields.extend(extra(&message.extra));
    object(fields)
}

fn content(message: &Message) -> Value {
    match &message.content {
        None => Value::from(()),
        Some(Content::Text(text)) => Value::from(&**text),
        Some(Content::Parts(parts)) => parts.iter().map(|part| from_json(&part.0)).collect(),
    }
}

fn from_tool_call(call: &ToolCall) -> Value {
    let function = &call.function;
    let named = [("name".into(), Value::from(&*function.name)), ("arguments".into(), from_json(&function.arguments))];
    let function = object(named.into_iter().chain(extra(&function.extra)).collect());
    let id = call.id.as_deref().map(|id| ("id".into(), Value::from(id)));
    let rest = [("type".into(), Value::from(&*call.call_type)), ("function".into(), function)];
    object(id.into_iter().chain(rest).chain(extra(&call.extra)).collect())
}

fn extra(fields: &Map<String, Json>) -> impl Iterator<Item = (Value, Value)> {
    fields.iter().map(|(name, value)| (Value::from(&**name), from_json(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::python_text::python_repr;

    #[test]
    fn messages_are_what_their_json_is() {
        let messages: Vec<Message> = serde_json::from_value(json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "n": 1.5}], "name": "n"},
            {"role": "assistant", "content": null, "reasoning_content": "because", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}", "strict": true}, "index": 0},
                {"type": "function", "function": {"name": "g", "arguments": {"x": [1, null, 1e30]}}},
            ]},
            {"role": "tool", "content": "r", "tool_call_id": "c1"},
        ]))
        .unwrap();
        let by_json = from_json(&serde_json::to_value(&messages).unwrap());
        assert_eq!(python_repr(&from_messages(&messages)), python_repr(&by_json));
    }
}
