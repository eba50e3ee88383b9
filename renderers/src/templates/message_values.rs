use std::borrow::Cow;

use fulgurite_types::{Content, ContentPart, FunctionCall, Message, ToolCall};
use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;

use crate::python::python_text::FieldName::{self, Known};
use crate::python::python_text::{field_with, from_json_text, from_json_with, object};
use crate::templates::template_dialect::{REASONING_FIELDS, TemplateDialect};
use crate::tools::call_arguments::is_null;

/// Where a text stands that a template is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPlace {
    /// The content of an assistant's message.
    Answer,
    /// Elsewhere in an assistant's message.
    Assistant,
    /// In another message, or in a tool.
    Other,
}

/// Makes the value of a text that a message or a tool holds.
pub(crate) type TextValue<'t> = &'t dyn Fn(&str, TextPlace) -> Value;

/// Makes the values that a template sees of messages and tools: straight from the messages, in the shape that the
/// template reads.
#[derive(Clone, Copy)]
pub(crate) struct MessageValues<'t> {
    dialect: Option<TemplateDialect>,
    text_value: TextValue<'t>,
}

impl<'t> MessageValues<'t> {
    /// Values in a dialect; without one, every field as it came.
    pub(crate) fn new(dialect: Option<TemplateDialect>, text_value: TextValue<'t>) -> Self {
        Self { dialect, text_value }
    }

    /// The messages of a conversation.
    pub(crate) fn messages<'m>(self, messages: impl IntoIterator<Item = &'m Message>) -> Value {
        let of = |message: &Message| {
            let place = if message.is_assistant() { TextPlace::Assistant } else { TextPlace::Other };
            self.message(message, &|text| (self.text_value)(text, place))
        };
        messages.into_iter().map(of).collect()
    }

    /// Tool declarations, none where there are none. A dialect has them in OpenAI's wrapper, which templates are
    /// written for; bare functions are wrapped.
    pub(crate) fn tools(self, tools: &[Json]) -> Value {
        if tools.is_empty() {
            return Value::from(());
        }
        let text_value = |text: &str| (self.text_value)(text, TextPlace::Other);
        let of = |tool: &Json| match tool.as_object() {
            Some(fields)
                if self.dialect.is_some() && !fields.contains_key("function") && fields.contains_key("name") =>
            {
                let function = fields.iter().filter(|(name, _)| *name != "type");
                let function = object(function.map(|field| field_with(field, &text_value)).collect());
                object(vec![(Known("type"), Value::from("function")), (Known("function"), function)])
            }
            _ => from_json_with(tool, &text_value),
        };
        tools.iter().map(of).collect()
    }

    fn message(self, message: &Message, text_value: &impl Fn(&str) -> Value) -> Value {
        let mut fields = Vec::with_capacity(6 + message.extra.len());
        fields.push((Known("role"), text_value(&message.role)));
        let place = if message.is_assistant() { TextPlace::Answer } else { TextPlace::Other };
        fields.push((Known("content"), self.content(message, &|text| (self.text_value)(text, place))));
        let optional = |name, value: &Option<String>| Some((Known(name), text_value(value.as_deref()?)));
        fields.extend(optional("name", &message.name));
        fields.extend(optional("tool_call_id", &message.tool_call_id));
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| self.tool_call(call, text_value)).collect();
            fields.push((Known("tool_calls"), calls));
        }
        let mut reasoning = self.reasoning(message).map(|(field, text)| (field, text_value(&text)));
        fields.extend(message.extra.iter().map(|field| match reasoning.take_if(|(name, _)| name == field.0) {
            Some((name, text)) => (Known(name), text),
            None => field_with(field, text_value),
        }));
        fields.extend(reasoning.map(|(name, text)| (Known(name), text)));
        object(fields)
    }

    fn content(self, message: &Message, text_value: &impl Fn(&str) -> Value) -> Value {
        match (&message.content, self.dialect) {
            (None, Some(dialect)) if dialect.null_as_empty => Value::from(""),
            (None, _) => Value::from(()),
            (Some(Content::Text(text)), Some(dialect)) if dialect.content_in_parts => {
                let part = object(vec![(Known("type"), Value::from("text")), (Known("text"), text_value(text))]);
                Value::from(vec![part])
            }
            (Some(Content::Text(text)), _) => text_value(text),
            (Some(Content::Parts(parts)), None) => values(parts, text_value),
            (Some(Content::Parts(parts)), Some(dialect)) => {
                let is_content = |part: &&ContentPart| !(message.is_assistant() && thinking(part).is_some());
                let parts = parts.iter().filter(is_content);
                let text: Option<String> = parts.clone().map(ContentPart::text).collect();
                match text.filter(|_| !dialect.content_in_parts) {
                    Some(text) => text_value(&text),
                    None => values(parts, text_value),
                }
            }
        }
    }

    fn tool_call(self, call: &ToolCall, text_value: &impl Fn(&str) -> Value) -> Value {
        let mut fields = Vec::with_capacity(3 + call.extra.len());
        fields.extend(call.id.as_deref().map(|id| (Known("id"), text_value(id))));
        fields.push((Known("type"), text_value(&call.call_type)));
        fields.push((Known("function"), self.function(&call.function, text_value)));
        fields.extend(call.extra.iter().map(|field| field_with(field, text_value)));
        object(fields)
    }

    fn function(self, function: &FunctionCall, text_value: &impl Fn(&str) -> Value) -> Value {
        let mut fields: Vec<(FieldName, Value)> = Vec::with_capacity(2 + function.extra.len());
        fields.push((Known("name"), text_value(&function.name)));
        fields.push((Known("arguments"), self.arguments(&function.arguments, text_value)));
        fields.extend(function.extra.iter().map(|field| field_with(field, text_value)));
        object(fields)
    }

    /// Arguments that are no JSON stay the string that they are, or are the one field of an object for a template that
    /// takes nothing else.
    fn arguments(self, arguments: &Json, text_value: &impl Fn(&str) -> Value) -> Value {
        let Some(dialect) = self.dialect else { return from_json_with(arguments, text_value) };
        match (arguments, dialect.arguments_as_string) {
            (given, true) if is_null(given) => text_value("{}"),
            (given, false) if is_null(given) => object(Vec::new()),
            (Json::String(_), true) => from_json_with(arguments, text_value),
            (given, true) => text_value(&given.to_string()),
            (Json::String(text), false) if text.trim().is_empty() => object(Vec::new()),
            (Json::String(text), false) => match (from_json_text(text, text_value), dialect.takes_any_arguments) {
                (Some(read), true) => read,
                (Some(read), false) if read.kind() == ValueKind::Map => read,
                (None, true) => text_value(text),
                (_, false) => object(vec![(Known("arguments"), text_value(text))]),
            },
            (given, false) => from_json_with(given, text_value),
        }
    }

    /// An assistant's reasoning, wherever it stands in the message, and the field from which the template reads it.
    fn reasoning(self, message: &Message) -> Option<(&'static str, Cow<'_, str>)> {
        let field = self.dialect?.reasoning_field.filter(|_| message.is_assistant())?;
        let mut separate = REASONING_FIELDS.iter().filter_map(|field| message.extra.get(*field)?.as_str());
        if let Some(reasoning) = separate.find(|reasoning| !reasoning.is_empty()) {
            return Some((field, reasoning.into()));
        }
        let Some(Content::Parts(parts)) = &message.content else { return None };
        let in_parts: String = parts.iter().filter_map(thinking).collect();
        (!in_parts.is_empty()).then(|| (field, in_parts.into()))
    }
}

/// The reasoning that a part of an assistant's content holds.
fn thinking(part: &ContentPart) -> Option<&str> {
    (part.part_type() == "thinking").then(|| part.0.get("thinking")?.as_str()).flatten()
}

fn values<'p>(parts: impl IntoIterator<Item = &'p ContentPart>, text_value: &impl Fn(&str) -> Value) -> Value {
    parts.into_iter().map(|part| from_json_with(&part.0, text_value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::python::python_repr::python_repr;
    use crate::python::python_text::from_json;
    use crate::templates::template_conversations::{a_user, calling, declared, result_of};
    use crate::testing::{FAMILY_TEMPLATES, family_renderer};

    #[test]
    fn null_as_text_is_no_arguments_in_every_familys_template() {
        for family in FAMILY_TEMPLATES {
            let renderer = family_renderer(family);
            let prompt = |arguments: serde_json::Value| {
                let mut call = calling(&["1"]);
                call.tool_calls[0].function.arguments = arguments;
                let messages = [a_user(), call, result_of("1")];
                renderer.render_text(&messages, &[declared("probe")]).ok()
            };
            let empty = prompt(json!({}));
            assert_eq!([prompt(json!("null")), prompt(json!(null))], [empty.clone(), empty], "{family}");
        }
    }

    #[test]
    fn without_a_dialect_messages_are_what_their_json_is() {
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
        let values = MessageValues::new(None, &|text, _| Value::from(text));
        assert_eq!(python_repr(&values.messages(&messages)), python_repr(&by_json));
        let tools = [json!({"name": "f"})];
        assert_eq!(python_repr(&values.tools(&tools)), "[{'name': 'f'}]");
    }
}
