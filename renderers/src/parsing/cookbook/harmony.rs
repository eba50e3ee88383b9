use serde_json::Value;

use super::blocks::{push_text, push_thinking};
use super::draft::Draft;
use super::draft::strip;
use crate::python::python_strings::is_space;

/// One message of a turn.
struct HarmonyMessage<'t> {
    header: &'t str,
    body: &'t str,
    /// Header, body and what ends it.
    raw_text: &'t str,
}

/// Harmony: thinking, text and calls by the channels and recipients of its messages. Messages without a body, and those
/// of channels that it does not know, are left out.
pub(super) fn parse(text: &str) -> Draft {
    let mut draft = Draft::default();
    let mut parts: Vec<Value> = Vec::new();
    for HarmonyMessage { header, body, raw_text } in messages(text) {
        if strip(body).is_empty() {
            continue;
        }
        if let Some(name) = word_after(header, "to=").and_then(|recipient| recipient.strip_prefix("functions.")) {
            draft.call_with_json(raw_text, None, name, body);
            continue;
        }
        match word_after(header, "<|channel|>") {
            Some("analysis") => push_thinking(&mut parts, body),
            Some("final" | "commentary") => push_text(&mut parts, body),
            _ => {}
        }
    }
    if text.matches("to=functions.").count() > draft.tool_calls.len() + draft.unparsed.len() {
        let raw_text = &text[text.rfind("<|start|>").unwrap_or(0)..];
        let error = "unterminated tool block: 'to=functions.' tool-call header without a parsable arguments payload";
        draft.unparsed(raw_text, error);
    }
    draft.content = if parts.is_empty() { text.into() } else { parts.into() };
    draft
}

fn messages(text: &str) -> Vec<HarmonyMessage<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find("<|message|>") {
        let header_end = at + offset;
        let header_start = text[at..header_end].rfind("<|start|>").map_or(at, |start| at + start);
        let body_start = header_end + "<|message|>".len();
        let ends = ["<|end|>", "<|call|>", "<|return|>"];
        let ends = ends.iter().filter_map(|end| Some((text[body_start..].find(end)?, end.len())));
        let (length, end_length) = ends.min().unwrap_or((text.len() - body_start, 0));
        at = body_start + length + end_length;
        found.push(HarmonyMessage {
            header: &text[header_start..header_end],
            body: &text[body_start..body_start + length],
            raw_text: &text[header_start..at],
        });
    }
    found
}

/// What follows the first `mark` that something follows, up to white space or `<`.
fn word_after<'t>(header: &'t str, mark: &str) -> Option<&'t str> {
    let word = |(start, mark): (usize, &str)| {
        let rest = &header[start + mark.len()..];
        let word = rest.split(|character: char| is_space(character) || character == '<').next()?;
        (!word.is_empty()).then_some(word)
    };
    header.match_indices(mark).find_map(word)
}
