use fulgurite_types::{Content, ContentPart, Message, ToolCall, mended_json};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::continuation::VolatileRules;
use crate::tools::call_arguments::is_null;

/// Sha256 of what something means.
pub(super) type Digest = [u8; 32];

/// What a message means, whatever way a client spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Of everything but reasoning, which clients drop.
    pub(super) digest: Digest,
    /// Of an assistant's reasoning; `None` where there is none.
    pub(super) reasoning: Option<Digest>,
}

impl Meaning {
    /// Two messages mean the same where these agree: the role; the text, text parts joined, nothing being empty text;
    /// of an assistant the text without white space around it, and the ids, names and parsed arguments of its calls;
    /// of a tool the call that it answers. Fields that are not rendered are no part of it, nor are volatile spans.
    pub(super) fn of(message: &Message, rules: &VolatileRules) -> Self {
        let mut hasher = Hasher::default();
        hasher.text(&message.role);
        let mut reasoning = String::new();
        let mut text = String::new();
        for part in parts(message) {
            match part {
                MessagePart::Text(part) => text.push_str(part),
                MessagePart::Thinking(part) if message.is_assistant() => reasoning.push_str(part),
                MessagePart::Thinking(part) => text.push_str(part),
                MessagePart::Other(part) => {
                    hasher.text(&std::mem::take(&mut text));
                    hasher.json(part);
                }
            }
        }
        match message.role.as_str() {
            "assistant" => hasher.text(text.trim()),
            role => hasher.text(&rules.normalised(role, &text)),
        }
        match message.role.as_str() {
            "assistant" => message.tool_calls.iter().for_each(|call| hasher.call(call)),
            // Some clients add the tool's name.
            "tool" => hasher.optional(message.tool_call_id.as_deref()),
            _ => hasher.optional(message.name.as_deref()),
        }
        Self { digest: hasher.finish(), reasoning: reasoning_of(message, reasoning) }
    }

    /// The digest of an assistant's message for a client that keeps its calls and drops the text beside them; `None`
    /// where it did not do both.
    pub(super) fn of_calls_alone(message: &Message, rules: &VolatileRules) -> Option<Digest> {
        let speaks = parts(message).any(|part| matches!(part, MessagePart::Text(text) if !text.trim().is_empty()));
        let calls_alone = || Self::of(&Message { content: None, ..message.clone() }, rules).digest;
        (message.is_assistant() && speaks && !message.tool_calls.is_empty()).then(calls_alone)
    }
}

/// What tool declarations mean: a bare function is the same as a wrapped one, and marks for caching do not count.
pub(super) fn meaning_of_tools(tools: &[Value]) -> Digest {
    let mut hasher = Hasher::default();
    for tool in tools {
        hasher.json(tool.get("function").unwrap_or(tool));
    }
    hasher.finish()
}

/// The text of an assistant's reasoning, wherever it stands.
pub(super) fn reasoning_text(message: &Message) -> String {
    let in_parts: String = parts(message)
        .filter_map(|part| match part {
            MessagePart::Thinking(text) => Some(text),
            _ => None,
        })
        .collect();
    separate_reasoning(message).map_or(in_parts, str::to_owned).trim().to_owned()
}

fn reasoning_of(message: &Message, in_parts: String) -> Option<Digest> {
    let text = separate_reasoning(message).filter(|_| message.is_assistant()).map_or(in_parts, str::to_owned);
    let mut hasher = Hasher::default();
    hasher.text(text.trim());
    (!text.trim().is_empty()).then(|| hasher.finish())
}

fn separate_reasoning(message: &Message) -> Option<&str> {
    let fields = ["reasoning_content", "reasoning"];
    fields.iter().filter_map(|field| message.extra.get(*field)?.as_str()).find(|text| !text.is_empty())
}

enum MessagePart<'m> {
    Text(&'m str),
    Thinking(&'m str),
    Other(&'m Value),
}

fn parts(message: &Message) -> impl Iterator<Item = MessagePart<'_>> {
    let (text, parts) = match &message.content {
        None => (None, [].as_slice()),
        Some(Content::Text(text)) => (Some(text.as_str()), [].as_slice()),
        Some(Content::Parts(parts)) => (None, parts.as_slice()),
    };
    text.map(MessagePart::Text).into_iter().chain(parts.iter().map(part_of))
}

fn part_of(part: &ContentPart) -> MessagePart<'_> {
    let thinking = || (part.part_type() == "thinking").then(|| part.0.get("thinking")?.as_str()).flatten();
    match (part.text(), thinking()) {
        (Some(text), _) => MessagePart::Text(text),
        (None, Some(thinking)) => MessagePart::Thinking(thinking),
        (None, None) => MessagePart::Other(&part.0),
    }
}

/// Hashes values one after another, each with its kind and length before it, so that no two lists read alike.
#[derive(Default)]
struct Hasher(Sha256);

impl Hasher {
    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.update([tag]);
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.tagged(b's', text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.tagged(b'n', &[]),
        }
    }

    fn call(&mut self, call: &ToolCall) {
        self.optional(call.id.as_deref());
        self.text(&call.function.name);
        match &call.function.arguments {
            arguments if is_null(arguments) => self.json(&Value::Object(Default::default())),
            Value::String(text) if text.trim().is_empty() => self.json(&Value::Object(Default::default())),
            Value::String(text) => match serde_json::from_str(&mended_json(text)) {
                Ok(arguments) => self.json(&arguments),
                Err(_) => self.tagged(b'x', text.as_bytes()),
            },
            arguments => self.json(arguments),
        }
    }

    /// JSON without regard to the order of keys, and without marks for caching. Numbers count as JavaScript reads
    /// them, because clients written in it send `1` for `1.0`.
    fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.tagged(b'n', &[]),
            Value::Bool(value) => self.tagged(b'b', &[u8::from(*value)]),
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN) + 0.0;
                self.tagged(b'f', &number.to_bits().to_le_bytes());
            }
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.tagged(b'a', &(items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| self.json(item));
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().filter(|(key, _)| *key != "cache_control").collect();
                fields.sort_by_key(|(key, _)| *key);
                self.tagged(b'o', &(fields.len() as u64).to_le_bytes());
                for (key, field) in fields {
                    self.text(key);
                    self.json(field);
                }
            }
        }
    }

    fn finish(self) -> Digest {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn meaning(value: Value) -> Meaning {
        Meaning::of(&serde_json::from_value(value).unwrap(), &VolatileRules::built_in())
    }

    fn calling(id: &str, arguments: Value) -> Value {
        json!({"role": "assistant", "content": null,
               "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}]})
    }

    #[test]
    fn calls_that_a_client_spelled_anew_are_the_same() {
        let sent = meaning(calling("c1", json!("{\"city\": \"é\", \"days\": 2.0, \"o\": {\"b\": null, \"a\": -0.0}}")));
        for spelled in [
            json!("{\"city\":\"\\u00e9\",\"days\":2,\"o\":{\"b\":null,\"a\":0}}"),
            json!("{\"o\": {\"a\": 0, \"b\": null}, \"days\": 2, \"city\": \"é\"}"),
            json!({"city": "é", "days": 2, "o": {"b": null, "a": 0}}),
        ] {
            assert_eq!(meaning(calling("c1", spelled.clone())), sent, "{spelled}");
        }
        for other in [json!("{\"city\":\"e\"}"), json!("{\"city\":\"é\",\"days\":\"2\"}"), json!("broken"), json!("")]
        {
            assert_ne!(meaning(calling("c1", other.clone())), sent, "{other}");
        }
        assert_ne!(meaning(calling("c2", json!({"city": "é", "days": 2, "o": {"b": null, "a": 0}}))), sent);
    }

    #[test]
    fn no_arguments_are_an_empty_object_and_broken_ones_are_their_text() {
        let empty = meaning(calling("c", json!("{}")));
        for spelled in [json!(""), json!(null), json!("null"), json!({}), json!(" ")] {
            assert_eq!(meaning(calling("c", spelled)), empty);
        }
        assert_eq!(meaning(calling("c", json!("{\"a\":"))), meaning(calling("c", json!("{\"a\":"))));
        assert_ne!(meaning(calling("c", json!("{\"a\":"))), meaning(calling("c", json!("{\"a\": "))));
    }

    #[test]
    fn nothing_is_said_in_many_ways() {
        let tool_calls = &calling("c", json!({}))["tool_calls"];
        let missing = meaning(json!({"role": "assistant", "tool_calls": tool_calls}));
        for content in [json!(null), json!(""), json!([]), json!([{"type": "text", "text": ""}])] {
            let spelled = json!({"role": "assistant", "content": content, "tool_calls": tool_calls});
            assert_eq!(meaning(spelled), missing, "{content}");
        }
    }

    #[test]
    fn parts_are_their_text_and_marks_and_unknown_fields_do_not_count() {
        let plain = meaning(json!({"role": "user", "content": "ab"}));
        for spelled in [
            json!({"role": "user", "content": [{"type": "text", "text": "ab"}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "ab", "cache_control": {"type": "ephemeral"}}]}),
            json!({"role": "user", "content": "ab", "id": "m1", "provider_specific_fields": {"x": 1}}),
        ] {
            assert_eq!(meaning(spelled), plain);
        }
        assert_ne!(meaning(json!({"role": "user", "content": "ab "})), plain);
        assert_ne!(meaning(json!({"role": "system", "content": "ab"})), plain);
        let image = |url: &str| json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}, "cache_control": 1}]});
        assert_eq!(
            meaning(image("a")),
            meaning(json!({"role": "user", "content": [{"image_url": {"url": "a"}, "type": "image_url"}]}))
        );
        assert_ne!(meaning(image("a")), meaning(image("b")));
    }

    #[test]
    fn what_clients_do_to_an_assistants_message_does_not_count() {
        let sent = meaning(json!({"role": "assistant", "content": "\n\nyes ", "reasoning_content": "hm\n"}));
        for spelled in [
            json!({"role": "assistant", "content": "yes", "reasoning": "hm"}),
            json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]}),
        ] {
            assert_eq!(meaning(spelled), sent);
        }
        let dropped = meaning(json!({"role": "assistant", "content": "yes", "refusal": null, "tool_calls": []}));
        assert_eq!((dropped.digest, dropped.reasoning), (sent.digest, None));
        let other = meaning(json!({"role": "assistant", "content": "yes", "reasoning_content": "no"}));
        assert_eq!(other.digest, sent.digest);
        assert_ne!(other.reasoning, sent.reasoning);
    }

    #[test]
    fn calls_alone_are_what_is_left_of_a_message_that_says_something_too() {
        let alone =
            |value: Value| Meaning::of_calls_alone(&serde_json::from_value(value).unwrap(), &VolatileRules::built_in());
        let silent = calling("c", json!({}));
        let mut speaking = silent.clone();
        for content in
            [json!("Looking."), json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Looking."}])]
        {
            speaking["content"] = content;
            assert_eq!(alone(speaking.clone()), Some(meaning(silent.clone()).digest));
        }
        assert_eq!(alone(silent), None);
        assert_eq!(alone(json!({"role": "assistant", "content": "Looking."})), None);
    }

    #[test]
    fn a_result_is_of_its_call_whatever_the_tool_is_called() {
        let result = |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
        let mut named = result("c1", "5");
        named["name"] = "add".into();
        assert_eq!(meaning(named), meaning(result("c1", "5")));
        assert_ne!(meaning(result("c2", "5")), meaning(result("c1", "5")));
        assert_ne!(meaning(result("c1", " 5")), meaning(result("c1", "5")));
    }

    #[test]
    fn tools_are_the_same_wrapped_or_bare_in_any_order_of_keys() {
        let bare = json!({"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}});
        let wrapped = json!({"type": "function", "cache_control": {}, "function":
            {"parameters": {"properties": {}, "type": "object"}, "name": "f", "description": "d"}});
        let other = json!({"name": "f", "description": "e"});
        assert_eq!(meaning_of_tools(std::slice::from_ref(&bare)), meaning_of_tools(&[wrapped]));
        assert_ne!(meaning_of_tools(&[bare.clone(), other.clone()]), meaning_of_tools(&[other, bare]));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e9..1e9f64).prop_map(Value::from),
            "[a-c\"\\\\é\n]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn arguments_mean_the_same_in_every_spelling_and_only_then(
            a in prop::collection::btree_map("[a-c]{1,2}", any_json(), 0..4),
            b in prop::collection::btree_map("[a-c]{1,2}", any_json(), 0..4),
        ) {
            let object = |fields: &std::collections::BTreeMap<String, Value>| Value::Object(fields.clone().into_iter().collect());
            let reversed = Value::Object(a.clone().into_iter().rev().collect());
            let pretty = serde_json::to_string_pretty(&reversed).unwrap();
            let sent = meaning(calling("c", object(&a).to_string().into()));
            prop_assert_eq!(meaning(calling("c", pretty.into())), sent);
            prop_assert_eq!(meaning(calling("c", object(&a))), sent);
            prop_assert_eq!(meaning(calling("c", object(&b))) == sent, object(&a) == object(&b));
        }
    }
}
