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
        Self::list(attributes, "gen_ai.prompt")
    }

    /// The answers, of which our own calls' spans have one; none of a span that is no model call's.
    pub fn of_answers(attributes: &Object) -> Vec<Self> {
        Self::list(attributes, "gen_ai.completion")
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

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
