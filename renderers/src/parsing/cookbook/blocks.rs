use std::ops::Range;

use serde_json::{Value, json};

use super::draft::Draft;

/// A stretch of text between two tags.
pub(super) struct Block {
    /// Where it stands, tags included.
    pub(super) outer: Range<usize>,
    /// What stands between the tags.
    pub(super) inner: Range<usize>,
}

/// The first stretch at or after `from` that begins with `open`, up to the next `close`.
pub(super) fn find_block(text: &str, from: usize, open: &str, close: &str) -> Option<Block> {
    let start = from + text[from..].find(open)?;
    let inner_start = start + open.len();
    let inner_end = inner_start + text[inner_start..].find(close)?;
    Some(Block { outer: start..inner_end + close.len(), inner: inner_start..inner_end })
}

/// Every stretch, one after another.
pub(super) fn find_blocks(text: &str, open: &str, close: &str) -> impl Iterator<Item = Block> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let block = find_block(text, from, open, close)?;
        from = block.outer.end;
        Some(block)
    })
}

/// The text as parts where it speaks of thinking, else as it is. Empty thinking is left out, and an open end is text.
pub(super) fn think_blocks(text: &str) -> Value {
    if !text.contains("<think>") {
        return text.into();
    }
    let mut parts = Vec::new();
    let mut at = 0;
    for block in find_blocks(text, "<think>", "</think>") {
        push_text(&mut parts, &text[at..block.outer.start]);
        push_thinking(&mut parts, &text[block.inner]);
        at = block.outer.end;
    }
    push_text(&mut parts, &text[at..]);
    parts.into()
}

/// Adds a part of text that is not empty.
pub(super) fn push_text(parts: &mut Vec<Value>, text: &str) {
    if !text.is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
}

/// Adds a part of thinking that is not empty.
pub(super) fn push_thinking(parts: &mut Vec<Value>, thinking: &str) {
    if !thinking.is_empty() {
        parts.push(json!({"type": "thinking", "thinking": thinking}));
    }
}

/// Of the first pair of tags that opens more often than it closes: an entry from where it opens last.
pub(super) fn report_unterminated(draft: &mut Draft, text: &str, tags: &[(&str, &str)]) {
    let count = |tag: &str| text.matches(tag).count();
    let Some((open, close)) = tags.iter().find(|(open, close)| count(open) > count(close)) else { return };
    let raw_text = &text[text.rfind(open).unwrap_or_default()..];
    draft.unparsed(cut(raw_text), &format!("unterminated tool block: '{open}' opened without a matching '{close}'"));
}

/// The most characters that the cookbook keeps of what it could not read.
const LONGEST_RAW_TEXT: usize = 16384;

fn cut(text: &str) -> &str {
    text.char_indices().nth(LONGEST_RAW_TEXT).map_or(text, |(end, _)| &text[..end])
}
