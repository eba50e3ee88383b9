use minijinja::Value;
use serde_json::{Map, Value as Json};

use crate::python_text::FieldName::{self, Known};
use crate::python_text::{from_json, object};
use crate::{Content, FunctionCall, Message, ToolCall};

/// Messages as templates see them: what [`from_json`] makes of their JSON, without making the JSON first.
pub(crate) fn from_messages(messages: &[Message]) -> Value {
    messages.iter().map(from_message).collect()
}

fn from_message(message: &Message) -> Value {
    let mut fields = Vec::with_capacity(5 + message.extra.len());
    fields.push((Known("role"), Value::from(&*message.role)));
    fields.push((Known("content"), content(message)));
    let optional = [("name", &message.name), ("tool_call_id", &message.tool_call_id)];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((Known(name), Value::from(value.as_deref()?)))));
    if !message.tool_calls.is_empty() {
        fields.push((Known("tool_calls"), message.tool_calls.iter().map(from_tool_call).collect()));
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
    let mut fields = Vec::with_capacity(3 + call.extra.len());
    fields.extend(call.id.as_deref().map(|id| (Known("id"), Value::from(id))));
    fields.push((Known("type"), Value::from(&*call.call_type)));
    fields.push((Known("function"), from_function(&call.function)));
    fields.extend(extra(&call.extra));
    object(fields)
}

fn from_function(function: &FunctionCall) -> Value {
    let mut fields = Vec::with_capacity(2 + function.extra.len());
    fields.push((Known("name"), Value::from(&*function.name)));
    fields.push((Known("arguments"), from_json(&function.arguments)));
    fields.extend(extra(&function.extra));
    object(fields)
}

fn extra(fields: &Map<String, Json>) -> impl Iterator<Item = (FieldName, Value)> {
    fields.iter().map(|(name, value)| (name.as_str().into(), from_json(value)))
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
