use super::blocks::{find_block, find_blocks, report_unterminated, think_blocks};
use super::draft::Draft;
use super::draft::strip;
use crate::python::python_strings::is_space;

const DEEPSEEK_SECTION: (&str, &str) = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>");
const DEEPSEEK_CALL: (&str, &str) = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>");
const DEEPSEEK_SEPARATOR: &str = "<｜tool▁sep｜>";

const KIMI_SECTIONS: [(&str, &str); 2] = [
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
];
const KIMI_CALL: (&str, &str) = ("<|tool_call_begin|>", "<|tool_call_end|>");
const KIMI_SEPARATOR: &str = "<|tool_call_argument_begin|>";

/// DeepSeek: the calls of the first section. A name is made of letters, digits and `_`; a call of another is left out.
pub(super) fn parse_deepseek(text: &str) -> Draft {
    let mut draft = Draft::default();
    let (open, close) = DEEPSEEK_SECTION;
    if let Some(section) = find_block(text, 0, open, close) {
        calls(&text[section.inner], DEEPSEEK_CALL, DEEPSEEK_SEPARATOR, |raw_text, name, arguments| {
            let is_name = name.chars().all(|character| character.is_alphanumeric() || character == '_');
            if is_name && !name.is_empty() {
                draft.call_with_json(raw_text, None, name, strip(arguments));
            }
            is_name && !name.is_empty()
        });
    }
    report_unterminated(&mut draft, text, &[DEEPSEEK_SECTION, DEEPSEEK_CALL]);
    let without_calls;
    let content = match draft.tool_calls.is_empty() && draft.unparsed.is_empty() {
        true => text,
        false => {
            without_calls = without_sections(text);
            strip(&without_calls)
        }
    };
    draft.content = think_blocks(content);
    draft
}

/// The text without its sections of calls and the white space before them.
fn without_sections(text: &str) -> String {
    let (open, close) = DEEPSEEK_SECTION;
    let mut out = String::new();
    let mut at = 0;
    for section in find_blocks(text, open, close) {
        out += text[at..section.outer.start].trim_end_matches(is_space);
        at = section.outer.end;
    }
    out + &text[at..]
}

/// Kimi: the calls of the first section, in either spelling; text ends where it begins. An id is `NAME:NUMBER`, with
/// something before a dot left out of the name; a call of another is left out.
pub(super) fn parse_kimi(text: &str) -> Draft {
    let mut draft = Draft::default();
    let sections = KIMI_SECTIONS.iter().filter_map(|(open, close)| find_block(text, 0, open, close));
    let section = sections.min_by_key(|section| section.outer.start);
    let mut content = text;
    if let Some(section) = section {
        content = &text[..section.outer.start];
        calls(&text[section.inner], KIMI_CALL, KIMI_SEPARATOR, |raw_text, id, arguments| {
            let is_id = is_kimi_id(id);
            if is_id {
                draft.call_with_json(raw_text, Some(strip(id)), kimi_name(strip(id)), strip(arguments));
            }
            is_id
        });
    }
    report_unterminated(&mut draft, text, &[KIMI_SECTIONS[0], KIMI_SECTIONS[1], KIMI_CALL]);
    draft.content = think_blocks(content);
    draft
}

fn is_kimi_id(text: &str) -> bool {
    let text = text.trim_end_matches(is_space);
    let before_digits = text.trim_end_matches(|character: char| character.is_numeric());
    before_digits.len() < text.len()
        && !before_digits.contains('<')
        && before_digits.strip_suffix(':').is_some_and(|name| !name.is_empty())
}

fn kimi_name(id: &str) -> &str {
    let name = id.split(':').next().unwrap_or_default();
    name.split_once('.').map_or(name, |(_, name)| name)
}

/// Gives every call of a section to `take`: its whole text, its head and its arguments. A call that is not taken is
/// looked for again behind its opening tag.
fn calls(section: &str, (open, close): (&str, &str), separator: &str, mut take: impl FnMut(&str, &str, &str) -> bool) {
    let mut at = 0;
    while let Some(offset) = section[at..].find(open) {
        let start = at + offset;
        at = start + open.len();
        let Some((head, rest)) = section[at..].split_once(separator) else { return };
        let Some(length) = rest.find(close) else { return };
        let end = section.len() - rest.len() + length + close.len();
        if take(&section[start..end], head, &rest[..length]) {
            at = end;
        }
    }
}
