//! Messages as the attributes of a model call's span have them.

use fulgurite_types::Object;
use serde_json::Value;

/// A message of a model call's prompt, or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanMessage {
    /// Whose it is: `user`, `assistant` and so on.
    pub role: String,
    /// What it says; what is no text is JSON.
    pub content: String,
    /// Its calls of tools: name and arguments.
    pub calls: Vec<(String, String)>,
}

impl SpanMessage {
    /// The messages of the prompt, in their order.
    pub fn of_prompt(attributes: &Object) -> Vec<Self> {
        let named = Self::list(attributes, "gen_ai.prompt");
        if !named.is_empty() {
            return named;
        }
        let system = Some(json_list(attributes, "gen_ai.system_instructions")).filter(|parts| !parts.is_empty());
        let system = system.map(|parts| Self::of_parts("system", &parts));
        system.into_iter().chain(Self::parts_list(attributes, "gen_ai.input.messages")).collect()
    }

    /// The answers, of which our own calls' spans have one; none of a span that is no model call's.
    pub fn of_answers(attributes: &Object) -> Vec<Self> {
        let named = Self::list(attributes, "gen_ai.completion");
        if named.is_empty() { Self::parts_list(attributes, "gen_ai.output.messages") } else { named }
    }

    /// Messages of parts, as OpenTelemetry's current conventions have them; those that have no role are left out.
    fn parts_list(attributes: &Object, key: &str) -> Vec<Self> {
        let message = |message: &Value| {
            let parts = message.get("parts").and_then(Value::as_array)?;
            Some(Self::of_parts(message.get("role")?.as_str()?, parts))
        };
        json_list(attributes, key).iter().filter_map(message).collect()
    }

    fn of_parts(role: &str, parts: &[Value]) -> Self {
        let (mut contents, mut calls) = (Vec::new(), Vec::new());
        for part in parts {
            let text = |name: &str| plain(part.get(name));
            match text("type").as_str() {
                "text" => contents.push(text("content")),
                "reasoning" => contents.push(format!("<think>{}</think>", text("content"))),
                "tool_call" => calls.push((text("name"), text("arguments"))),
                "tool_call_response" => contents.push(plain(part.get("response").or_else(|| part.get("result")))),
                _ => contents.push(part.to_string()),
            }
        }
        Self { role: role.to_owned(), content: contents.join("\n"), calls }
    }

    fn list(attributes: &Object, key: &str) -> Vec<Self> {
        (0..).map_while(|index| Self::read(attributes, &format!("{key}.{index}"))).collect()
    }

    fn read(attributes: &Object, prefix: &str) -> Option<Self> {
        let field = |name: &str| attributes.get(&format!("{prefix}.{name}"));
        let call = |index: usize| {
            let name = field(&format!("tool_calls.{index}.name"))?.as_str()?.to_owned();
            Some((name, plain(field(&format!("tool_calls.{index}.arguments")))))
        };
        let role = field("role")?.as_str()?.to_owned();
        Some(Self { role, content: plain(field("content")), calls: (0..).map_while(call).collect() })
    }

    /// What stays the same where a client sends it back: of calls, whose arguments clients spell in ways of their own, the names.
    pub fn identity(&self) -> (&str, &str, Vec<&str>) {
        (&self.role, &self.content, self.calls.iter().map(|(name, _)| name.as_str()).collect())
    }
}

/// A list, as it is or as JSON text.
fn json_list(attributes: &Object, key: &str) -> Vec<Value> {
    match attributes.get(key) {
        Some(Value::Array(items)) => items.clone(),
        // Instrumentations cut long texts off: what is left of one is no list.
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_parts_are_read_as_values_and_as_json_text() {
        let parts = json!({
            "gen_ai.system_instructions": [{"type": "text", "content": "be short"}],
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": "how warm?"}, {"type": "uri", "uri": "http://x/y"}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t", "response": {"c": 5}}]},
                {"parts": []},
            ],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [
                {"type": "reasoning", "content": "hm"}, {"type": "tool_call", "name": "warmth", "arguments": {"at": 1}}]}],
        });
        let mut texts = parts.clone();
        texts.as_object_mut().unwrap().values_mut().for_each(|value| *value = json!(value.to_string()));
        let message = |role: &str, content: &str, calls: &[(&str, &str)]| SpanMessage {
            role: role.to_owned(),
            content: content.to_owned(),
            calls: calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect(),
        };
        for attributes in [&parts, &texts] {
            let attributes = attributes.as_object().unwrap();
            assert_eq!(
                SpanMessage::of_prompt(attributes),
                [
                    message("system", "be short", &[]),
                    message("user", "how warm?\n{\"type\":\"uri\",\"uri\":\"http://x/y\"}", &[]),
                    message("tool", "{\"c\":5}", &[]),
                ]
            );
            let answer = message("assistant", "<think>hm</think>", &[("warmth", "{\"at\":1}")]);
            assert_eq!(SpanMessage::of_answers(attributes), [answer]);
        }
        let cut = json!({"gen_ai.output.messages": "[{\"role\": \"as"});
        assert_eq!(SpanMessage::of_answers(cut.as_object().unwrap()), []);
    }
}
