//! Messages and tools as attributes of a call's span, under the names that tracers of OpenAI's clients give them, and
//! back again. What those have no name for is kept beside them as JSON text under `extra`, so that nothing is lost.

use std::collections::BTreeMap;

use fulgurite_types::{Content, FunctionCall, Message, Object, ToolCall, exact_json, exact_value};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::StoreError;

/// Fields of a message that hold the assistant's reasoning.
pub const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Prefix of the answer's message.
pub const ANSWER: &str = "gen_ai.completion.0";
const PROMPT: &str = "gen_ai.prompt";
const FUNCTIONS: &str = "gen_ai.request.functions";
/// Said of an answer, but no part of it as a message.
const FINISH_REASON: &str = "finish_reason";

/// Of a message whose content is the JSON text of its parts.
const CONTENT_IS_PARTS: &str = "content_is_parts";
/// JSON text of all fields that have no attribute of their own.
const EXTRA: &str = "extra";

/// The messages in the attributes of a call's span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallMessages {
    /// The prompt's.
    pub messages: Vec<Message>,
    /// In OpenAI's shape for chats.
    pub tools: Vec<Value>,
    /// The answer.
    pub reply: Option<Message>,
}

/// Adds the prompt's messages.
pub fn add_messages(attributes: &mut Object, messages: &[Message]) {
    for (index, message) in messages.iter().enumerate() {
        add_message(attributes, &format!("{PROMPT}.{index}"), message);
    }
}

/// Adds a message below `prefix`: `gen_ai.prompt.N` or [`ANSWER`].
pub fn add_message(attributes: &mut Object, prefix: &str, message: &Message) {
    attributes.extend(message_parts(message).into_iter().map(|(part, value)| (format!("{prefix}.{part}"), value)));
}

/// A message by the ends of its attributes' names. The same message has the same attributes in prompt and answer, so that
/// the store keeps an answer once that comes back in the history; fields that are null, which clients add, are left out.
pub fn message_parts(message: &Message) -> Object {
    let mut parts = Object::new();
    let mut set = |key: &str, value: Value| {
        parts.insert(key.to_owned(), value);
    };
    set("role", json!(message.role));
    match &message.content {
        None => {}
        Some(Content::Text(text)) => set("content", json!(text)),
        // An attribute is a string or a list of one kind, so parts go in as JSON text.
        Some(Content::Parts(parts)) => {
            set("content", json!(exact_json(&json!(parts))));
            set(CONTENT_IS_PARTS, json!(true));
        }
    }
    let mut rest = without_nulls(&message.extra);
    for field in REASONING_FIELDS {
        if message.extra.get(field).is_some_and(Value::is_string)
            && let Some(reasoning) = rest.shift_remove(field)
        {
            set(field, reasoning);
        }
    }
    for (field, value) in [("name", &message.name), ("tool_call_id", &message.tool_call_id)] {
        if let Some(value) = value {
            set(field, json!(value));
        }
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        add_tool_call(call, |key, value| set(&format!("tool_calls.{index}.{key}"), value));
    }
    if !rest.is_empty() {
        set(EXTRA, text_of(&json!(rest)));
    }
    parts
}

fn add_tool_call(call: &ToolCall, mut set: impl FnMut(&str, Value)) {
    if let Some(id) = &call.id {
        set("id", json!(id));
    }
    set("type", json!(call.call_type));
    set("name", json!(call.function.name));
    match &call.function.arguments {
        Value::Null => {}
        arguments => set("arguments", text_of(arguments)),
    }
    let mut rest = without_nulls(&call.extra);
    let of_function = without_nulls(&call.function.extra);
    if !of_function.is_empty() {
        rest.insert("function".to_owned(), of_function.into());
    }
    if !rest.is_empty() {
        set(EXTRA, text_of(&json!(rest)));
    }
}

/// The fields that are not null.
fn without_nulls(fields: &Object) -> Object {
    fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Adds the tools that a request declares.
pub fn add_tools(attributes: &mut Object, tools: &[Value]) {
    for (index, tool) in tools.iter().enumerate() {
        let mut set = |key: &str, value: Value| {
            attributes.insert(format!("{FUNCTIONS}.{index}.{key}"), value);
        };
        let function = tool.get("function").and_then(Value::as_object);
        let ours = [
            ("name", Value::is_string as fn(&Value) -> bool),
            ("description", Value::is_string),
            ("parameters", Value::is_object),
        ];
        let named = ours.into_iter().filter_map(|(field, is_ours)| {
            let value = function?.get(field).filter(|value| is_ours(value))?;
            set(field, text_of(value));
            Some(field)
        });
        let named: Vec<&str> = named.collect();
        let is_plain = !named.is_empty()
            && function.map(Map::len) == Some(named.len())
            && tool.as_object().map(Map::len) == Some(2)
            && tool["type"] == "function";
        if !is_plain {
            set(EXTRA, json!(exact_json(&without(tool, &named))));
        }
    }
}

/// A tool without some fields of its function, and without the function if those are all.
fn without(tool: &Value, named: &[&str]) -> Value {
    let mut rest = tool.clone();
    if let Some(function) = rest.get_mut("function").and_then(Value::as_object_mut) {
        named.iter().for_each(|field| drop(function.shift_remove(*field)));
        if !named.is_empty() && function.is_empty() {
            rest.as_object_mut().map(|tool| tool.shift_remove("function"));
        }
    }
    rest
}

/// A tool of which all else has attributes of its own.
fn plain_tool() -> Value {
    json!({ "type": "function" })
}

fn text_of(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => json!(exact_json(other)),
    }
}

/// Undoes [`add_messages`], [`add_message`] and [`add_tools`], but that arguments of a call that were given as an
/// object come back as its text, and fields that are null do not come back.
///
/// # Errors
/// [`StoreError::Corrupt`], naming the attribute, where something else was written.
pub fn messages_of(attributes: &Object) -> Result<CallMessages, StoreError> {
    let (mut messages, mut tools, mut reply) = (BTreeMap::new(), BTreeMap::new(), Fields::below(ANSWER));
    for (key, value) in attributes {
        if let Some((index, field)) = numbered(key, PROMPT) {
            add_field(&mut messages, PROMPT, index, field, value);
        } else if let Some((index, field)) = numbered(key, FUNCTIONS) {
            add_field(&mut tools, FUNCTIONS, index, field, value);
        } else if let Some(field) = below(key, ANSWER).filter(|field| *field != FINISH_REASON) {
            reply.values.insert(field.to_owned(), value.clone());
        }
    }
    Ok(CallMessages {
        messages: messages.into_values().map(message).collect::<Result<_, _>>()?,
        tools: tools.into_values().map(tool).collect::<Result<_, _>>()?,
        reply: (!reply.values.is_empty()).then(|| message(reply)).transpose()?,
    })
}

/// The rest of a key that begins with `prefix` and a dot.
fn below<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix('.')
}

/// Number and rest of a key like `prefix.number.rest`.
fn numbered<'k>(key: &'k str, prefix: &str) -> Option<(usize, &'k str)> {
    let (number, field) = below(key, prefix)?.split_once('.')?;
    Some((number.parse().ok()?, field))
}

fn add_field(all: &mut BTreeMap<usize, Fields>, prefix: &str, index: usize, field: &str, value: &Value) {
    let fields = all.entry(index).or_insert_with(|| Fields::below(&format!("{prefix}.{index}")));
    fields.values.insert(field.to_owned(), value.clone());
}

/// The attributes below one prefix.
struct Fields {
    prefix: String,
    values: Object,
}

impl Fields {
    fn below(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), values: Object::new() }
    }

    fn corrupt(&self, field: &str, message: impl Into<String>) -> StoreError {
        StoreError::Corrupt { column: format!("{}.{field}", self.prefix), message: message.into() }
    }

    /// A field's text, if the field exists.
    fn text(&mut self, field: &str) -> Result<Option<String>, StoreError> {
        match self.values.shift_remove(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.corrupt(field, "it is not text")),
        }
    }

    fn needed_text(&mut self, field: &str) -> Result<String, StoreError> {
        self.text(field)?.ok_or_else(|| self.corrupt(field, "it is missing"))
    }

    /// A field's JSON text, parsed, if the field exists.
    fn json<T: DeserializeOwned>(&mut self, field: &str) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        exact_value(&text)
            .and_then(serde_json::from_value)
            .map(Some)
            .map_err(|error| self.corrupt(field, error.to_string()))
    }

    /// Nothing must be left.
    fn end(self) -> Result<(), StoreError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(field) => Err(self.corrupt(field, "messages have no such attribute")),
        }
    }
}

fn message(mut fields: Fields) -> Result<Message, StoreError> {
    let mut calls = BTreeMap::new();
    let prefix = format!("{}.tool_calls", fields.prefix);
    fields.values.retain(|key, value| match numbered(key, "tool_calls") {
        None => true,
        Some((index, field)) => {
            add_field(&mut calls, &prefix, index, field, value);
            false
        }
    });
    let content = match fields.values.shift_remove(CONTENT_IS_PARTS) {
        None => fields.text("content")?.map(Content::Text),
        Some(_) => fields.json("content")?.map(Content::Parts),
    };
    let mut extra: Object = fields.json(EXTRA)?.unwrap_or_default();
    for field in REASONING_FIELDS {
        if let Some(reasoning) = fields.text(field)? {
            extra.insert(field.to_owned(), reasoning.into());
        }
    }
    let message = Message {
        role: fields.needed_text("role")?,
        content,
        name: fields.text("name")?,
        tool_call_id: fields.text("tool_call_id")?,
        tool_calls: calls.into_values().map(tool_call).collect::<Result<_, _>>()?,
        extra,
    };
    fields.end()?;
    Ok(message)
}

fn tool_call(mut fields: Fields) -> Result<ToolCall, StoreError> {
    let mut extra: Object = fields.json(EXTRA)?.unwrap_or_default();
    let of_function = match extra.shift_remove("function") {
        None => Object::new(),
        Some(Value::Object(of_function)) => of_function,
        Some(_) => return Err(fields.corrupt(EXTRA, "its `function` is not an object")),
    };
    let call = ToolCall {
        id: fields.text("id")?,
        call_type: fields.needed_text("type")?,
        function: FunctionCall {
            name: fields.needed_text("name")?,
            arguments: fields.text("arguments")?.map(Value::String).unwrap_or_default(),
            extra: of_function,
        },
        extra,
    };
    fields.end()?;
    Ok(call)
}

fn tool(mut fields: Fields) -> Result<Value, StoreError> {
    let mut tool = fields.json(EXTRA)?.unwrap_or_else(plain_tool);
    let mut function = Object::new();
    for field in ["name", "description"] {
        if let Some(text) = fields.text(field)? {
            function.insert(field.to_owned(), text.into());
        }
    }
    if let Some(parameters) = fields.json::<Value>("parameters")? {
        function.insert("parameters".to_owned(), parameters);
    }
    if !function.is_empty() {
        let Some(tool) = tool.as_object_mut() else {
            return Err(fields.corrupt(EXTRA, "it is not an object"));
        };
        if let Some(Value::Object(rest)) = tool.shift_remove("function") {
            function.extend(rest);
        }
        tool.insert("function".to_owned(), function.into());
    }
    fields.end()?;
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::ContentPart;
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has none other", |number| number.is_finite()).prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                btree_map("[a-z.]{1,4}", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Fields beside those that are named.
    fn extra() -> impl Strategy<Value = Object> {
        btree_map("x[a-z.]{0,4}|reasoning|reasoning_content|refusal|provider_specific_fields|extra", json_value(), 0..4)
            .prop_map(|map| map.into_iter().collect())
    }

    fn tool_call_strategy() -> impl Strategy<Value = ToolCall> {
        (option::of(".{0,6}"), "function|custom", ".{0,6}", json_value(), extra(), extra()).prop_map(
            |(id, call_type, name, arguments, of_function, extra)| ToolCall {
                id,
                call_type,
                function: FunctionCall { name, arguments, extra: of_function },
                extra,
            },
        )
    }

    fn message_strategy() -> impl Strategy<Value = Message> {
        let content = option::of(prop_oneof![
            ".{0,9}".prop_map(Content::Text),
            Just(Content::Text("[{\"type\": \"text\", \"text\": \"no part\"}]".to_owned())),
            vec(json_value().prop_map(ContentPart), 0..3).prop_map(Content::Parts),
        ]);
        let (name, calls) = (option::of(".{0,6}"), vec(tool_call_strategy(), 0..12));
        ("system|user|assistant|tool|.{0,4}", content, name.clone(), name, calls, extra()).prop_map(
            |(role, content, name, tool_call_id, tool_calls, extra)| Message {
                role,
                content,
                name,
                tool_call_id,
                tool_calls,
                extra,
            },
        )
    }

    /// A tool as the wire has it, or anything else.
    fn tool_strategy() -> impl Strategy<Value = Value> {
        let function = btree_map("name|description|parameters|strict|x", json_value(), 0..5);
        let named = (function, option::of("function|x"), extra()).prop_map(|(function, kind, mut tool)| {
            tool.insert("function".to_owned(), Value::Object(function.into_iter().collect()));
            tool.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
            Value::Object(tool)
        });
        prop_oneof![named, json_value(), Just(plain_tool())]
    }

    /// The same message as it comes back.
    fn as_read(message: &Message) -> Message {
        let mut message = message.clone();
        message.extra = without_nulls(&message.extra);
        for call in &mut message.tool_calls {
            call.extra = without_nulls(&call.extra);
            call.function.extra = without_nulls(&call.function.extra);
            if !call.function.arguments.is_null() {
                call.function.arguments = text_of(&call.function.arguments);
            }
        }
        message
    }

    proptest! {
        #[test]
        fn what_is_read_means_what_was_written(
            messages in vec(message_strategy(), 0..12),
            tools in vec(tool_strategy(), 0..12),
            reply in option::of(message_strategy()),
        ) {
            let mut attributes = json!({ "gen_ai.request.model": "m", "gen_ai.completion.0.finish_reason": "stop" });
            let attributes = attributes.as_object_mut().unwrap();
            add_messages(attributes, &messages);
            add_tools(attributes, &tools);
            if let Some(reply) = &reply {
                add_message(attributes, ANSWER, reply);
            }
            let simple = |value: &Value| value.is_string() || value.is_boolean();
            prop_assert!(attributes.values().all(simple), "{attributes:?}");
            let read = messages_of(attributes).unwrap();
            prop_assert_eq!(read.messages, messages.iter().map(as_read).collect::<Vec<_>>());
            prop_assert_eq!(read.tools, tools);
            prop_assert_eq!(read.reply, reply.as_ref().map(as_read));
        }

        #[test]
        fn an_answer_has_the_same_attributes_in_the_history(
            message in message_strategy(),
            nulls in vec("refusal|audio|function_call|annotations", 0..4),
        ) {
            let (mut answered, mut later) = (Object::new(), Object::new());
            let mut back = message.clone();
            for field in nulls {
                back.extra.entry(field).or_insert(Value::Null);
            }
            add_message(&mut answered, ANSWER, &message);
            add_message(&mut later, "gen_ai.prompt.7", &back);
            let renamed = |(key, value): (&String, &Value)| (key.replacen(ANSWER, "gen_ai.prompt.7", 1), value.clone());
            // The order matters too: the store compares texts.
            prop_assert_eq!(
                answered.iter().map(renamed).collect::<Vec<_>>(),
                later.into_iter().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn what_is_no_message_is_refused_by_its_attribute() {
        for (attributes, column) in [
            (json!({ "gen_ai.prompt.0.content": "x" }), "gen_ai.prompt.0.role"),
            (json!({ "gen_ai.prompt.0.role": 1 }), "gen_ai.prompt.0.role"),
            (json!({ "gen_ai.prompt.3.role": "user", "gen_ai.prompt.3.smell": "x" }), "gen_ai.prompt.3.smell"),
            (json!({ "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.extra": "{" }), "gen_ai.prompt.0.extra"),
            (
                json!({ "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.1.type": "function" }),
                "gen_ai.completion.0.tool_calls.1.name",
            ),
            (
                json!({ "gen_ai.request.functions.0.name": "f", "gen_ai.request.functions.0.extra": "[]" }),
                "gen_ai.request.functions.0.extra",
            ),
        ] {
            match messages_of(attributes.as_object().unwrap()) {
                Err(StoreError::Corrupt { column: found, .. }) => assert_eq!(found, column),
                other => panic!("{other:?}"),
            }
        }
    }
}
