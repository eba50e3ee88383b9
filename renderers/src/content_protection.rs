use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::tokenizer::Piece;
use crate::{RenderError, Tokenizer};

/// First of the private-use characters that stand in for protected ones.
const STAND_INS: u32 = 0xf_0000;

/// Keeps what messages say apart from what a template writes, so that no text of a message becomes a control token.
///
/// A template only sees text. So every character that begins or ends a control token (usually `<` and `>`) is written
/// as a private-use character wherever it stands in a message, before the template renders it. In the result, a control
/// token that is spelled with real characters was spelled by the template. The stand-ins are turned back when the
/// tokens are cut.
///
/// A template that looks into text (for `</think>`, say) may take another way when it sees stand-ins. The text with
/// stand-ins turned back is therefore held against the text rendered without them: only if both are equal do the
/// stand-ins tell where the message's text went.
#[derive(Debug)]
pub(crate) struct ContentProtection {
    /// Control tokens whose meaning the template may read from an assistant's text: the marks of reasoning that are not
    /// special.
    readable: Vec<String>,
    /// The characters that begin or end a control token.
    edges: BTreeSet<char>,
}

/// A stand-in for every edge, none of which occurs in the text that is to be told apart.
struct StandIns<'p> {
    protection: &'p ContentProtection,
    of_edge: BTreeMap<char, char>,
    edge_of: BTreeMap<char, char>,
}

impl ContentProtection {
    /// The protection that a tokenizer's control tokens need.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let edges = |(text, _): (&str, bool)| [text.chars().next(), text.chars().next_back()];
        let marks_reasoning = |text: &str| text.to_lowercase().contains("think");
        let readable = tokenizer
            .control_tokens()
            .filter(|(text, special)| !special && marks_reasoning(text))
            .map(|(text, _)| text.to_owned());
        Self { readable: readable.collect(), edges: tokenizer.control_tokens().flat_map(edges).flatten().collect() }
    }

    /// Renders `context` (`messages`, `tools` and the rest of what a template sees) and cuts the text into pieces.
    /// Only what stands below the names in `protected` is protected.
    pub(crate) fn render(
        &self,
        tokenizer: &Tokenizer,
        context: &Map<String, Value>,
        protected: &[&str],
        render: impl Fn(&Map<String, Value>) -> Result<String, RenderError>,
    ) -> Result<Vec<Piece>, RenderError> {
        let plain = render(context)?;
        if !protected.iter().filter_map(|name| context.get(*name)).any(|value| self.needs_protection(value)) {
            return Ok(tokenizer.split_control(&plain));
        }
        let stand_ins = self.stand_ins(&plain);
        // Second attempt, for templates that read an assistant's text: its `<think>` and the like are left to them.
        for assistant_is_readable in [false, true] {
            let mut context = context.clone();
            for name in protected {
                if let Some(value) = context.get_mut(*name) {
                    stand_ins.protect(value, false, assistant_is_readable);
                }
            }
            // A template that trips over stand-ins has looked into the text too.
            let Ok(rendered) = render(&context) else { continue };
            if stand_ins.restore(&rendered) == plain {
                return Ok(stand_ins.cut(tokenizer, &rendered));
            }
        }
        Err(RenderError::ContentNotSeparable)
    }

    fn needs_protection(&self, value: &Value) -> bool {
        let marked = |text: &str| text.chars().any(|character| self.edges.contains(&character));
        match value {
            Value::String(text) => marked(text),
            Value::Array(items) => items.iter().any(|item| self.needs_protection(item)),
            Value::Object(fields) => fields.iter().any(|(key, item)| marked(key) || self.needs_protection(item)),
            _ => false,
        }
    }

    /// Where the last mark ends that closes reasoning; 0 where there is none.
    fn last_end_of_reasoning(&self, text: &str) -> usize {
        let closing = self.readable.iter().filter(|token| token.contains('/'));
        closing.filter_map(|token| Some(text.rfind(token.as_str())? + token.len())).max().unwrap_or(0)
    }

    /// Private-use characters that do not occur in `text`.
    fn stand_ins(&self, text: &str) -> StandIns<'_> {
        let free = (STAND_INS..).filter_map(char::from_u32).filter(|character| !text.contains(*character));
        let of_edge: BTreeMap<char, char> = self.edges.iter().copied().zip(free).collect();
        let edge_of = of_edge.iter().map(|(edge, stand_in)| (*stand_in, *edge)).collect();
        StandIns { protection: self, of_edge, edge_of }
    }
}

impl StandIns<'_> {
    /// Protects every string of a value, keys included. `readable` leaves the readable control tokens as they are.
    fn protect(&self, value: &mut Value, readable: bool, assistant_is_readable: bool) {
        match value {
            Value::String(text) => *text = self.protect_text(text, readable),
            Value::Array(items) => {
                for item in items {
                    self.protect(item, readable, assistant_is_readable);
                }
            }
            Value::Object(fields) => {
                let is_assistant = fields.get("role").and_then(Value::as_str) == Some("assistant");
                let readable = readable || (assistant_is_readable && is_assistant);
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, mut item)| {
                        self.protect(&mut item, readable, assistant_is_readable);
                        (self.protect_text(&key, readable), item)
                    })
                    .collect();
            }
            _ => {}
        }
    }

    fn protect_text(&self, text: &str, readable: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        // What begins after the last end of reasoning ends nowhere: it is text.
        let last_end = if readable { self.protection.last_end_of_reasoning(text) } else { 0 };
        while let Some(character) = rest.chars().next() {
            let within = text.len() - rest.len() < last_end;
            let kept = self.protection.readable.iter().find(|token| within && rest.starts_with(token.as_str()));
            let length = kept.map_or(character.len_utf8(), String::len);
            match kept {
                Some(token) => out.push_str(token),
                None => out.push(self.of_edge.get(&character).copied().unwrap_or(character)),
            }
            rest = &rest[length..];
        }
        out
    }

    /// Turns stand-ins back.
    fn restore(&self, text: &str) -> String {
        text.chars().map(|character| self.edge_of.get(&character).copied().unwrap_or(character)).collect()
    }

    fn cut(&self, tokenizer: &Tokenizer, text: &str) -> Vec<Piece> {
        let restore = |piece| match piece {
            Piece::Text(text) => Piece::Text(self.restore(&text)),
            control => control,
        };
        tokenizer.split_control(text).into_iter().map(restore).collect()
    }
}
