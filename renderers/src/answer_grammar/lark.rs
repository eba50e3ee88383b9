//! How things are spelled in llguidance's dialect of Lark.

use fulgurite_types::exact_json;
use serde_json::Value;

/// Text as it stands.
pub(super) fn text(text: &str) -> String {
    // Lark's strings are JSON's, but for this character, which must be escaped in them.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// JSON that meets a schema.
pub(super) fn json(schema: &Value) -> String {
    match schema {
        Value::Bool(true) => "%json {}".to_owned(),
        schema => format!("%json {}", exact_json(schema)),
    }
}

/// The rules and terminals of a grammar, one to a line.
#[derive(Debug, Default)]
pub(super) struct Rules {
    lines: String,
    terminals: Vec<String>,
}

impl Rules {
    /// Adds a rule.
    pub(super) fn add(&mut self, name: &str, definition: &str) {
        self.lines.push_str(&format!("{name}: {definition}\n"));
    }

    /// Adds a terminal, unless it is there, and gives its name.
    pub(super) fn terminal(&mut self, definition: String) -> String {
        let known = self.terminals.iter().position(|terminal| *terminal == definition);
        let number = known.unwrap_or(self.terminals.len());
        let name = format!("TEXT_{number}");
        if known.is_none() {
            self.add(&name, &definition);
            self.terminals.push(definition);
        }
        name
    }

    /// Reasoning: any text, of which there need not be any.
    pub(super) fn thought(&mut self) -> String {
        format!("{}?", self.terminal("/(?s:.)+/".to_owned()))
    }

    /// The grammar.
    pub(super) fn into_text(self) -> String {
        self.lines
    }
}

/// A terminal of text of some `length` (`*`, `{0,9}`), then `before`, the first `end` that stands there, and `after`.
/// Nothing that follows would still match it.
pub(super) fn up_to(length: &str, before: &str, end: &str, after: &str) -> String {
    let escaped = |text: &str| text.replace('/', "\\/").replace('\n', "\\n");
    // More characters than these stand behind an earlier end only.
    let earlier = after.chars().count() + 1;
    let (before, end, after) = (escaped(before), escaped(end), escaped(after));
    format!("/(?s:.){length}{before}{end}{after}/ & ~/(?s:.)*{end}(?s:.){{{earlier},}}/")
}
