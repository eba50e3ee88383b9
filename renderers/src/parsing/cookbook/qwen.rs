use serde_json::{Value, json};

use super::blocks::{find_block, push_text, push_thinking, report_unterminated};
use super::draft::strip;
use super::draft::{Draft, invalid_json};
use crate::python::python_json_decoder::{PythonJson, loads};
use crate::python::python_strings::is_space;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// What differs within the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Newlines around thinking belong to its frame.
    Framed,
    /// They do not.
    Unframed,
    /// As framed, with all white space around thinking stripped and calls as XML besides JSON.
    Xml,
}

/// A block of a call that is no JSON: what stands there, and why.
pub(super) struct Unparsed {
    pub(super) raw_text: String,
    error: String,
}

pub(super) fn parse(text: &str, variant: Variant) -> Draft {
    let mut draft = Draft::of_text(text.to_owned());
    let mut unparsed = Vec::new();
    if text.contains("<think>") || text.contains(OPEN) {
        let parts = parts_and_calls(text, &mut draft, &mut unparsed);
        draft.content = match variant {
            Variant::Unframed => parts,
            Variant::Framed => unframed(parts, |thinking| thinking),
            Variant::Xml => unframed(parts, strip),
        }
        .into();
    }
    for Unparsed { raw_text, error } in unparsed {
        match xml_call(&raw_text) {
            _ if variant != Variant::Xml || !raw_text.contains("<function=") => draft.unparsed(&raw_text, &error),
            Ok((name, arguments)) => draft.call(None, &name, &arguments.dumps()),
            Err(error) => draft.unparsed(&raw_text, error),
        }
    }
    report_unterminated(&mut draft, text, &[(OPEN, CLOSE)]);
    draft
}

/// The text as parts. Calls that are JSON go into the draft, others into `unparsed`.
pub(super) fn parts_and_calls(text: &str, draft: &mut Draft, unparsed: &mut Vec<Unparsed>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        let think = find_block(text, at, "<think>", "</think>");
        let call = find_block(text, at, OPEN, CLOSE);
        let before = |end: usize, parts: &mut Vec<Value>| push_text(parts, &text[at..end]);
        at = match (think, call) {
            (None, None) => break,
            (Some(think), call) if call.as_ref().is_none_or(|call| think.outer.start < call.outer.start) => {
                before(think.outer.start, &mut parts);
                push_thinking(&mut parts, &text[think.inner]);
                think.outer.end
            }
            (_, Some(call)) => {
                before(call.outer.start, &mut parts);
                let raw_text = &text[call.outer.clone()];
                match json_call(&text[call.inner]) {
                    Ok((id, name, arguments)) => draft.call(id.as_deref(), &name, &arguments.dumps()),
                    Err(error) => unparsed.push(Unparsed { raw_text: raw_text.to_owned(), error }),
                }
                call.outer.end
            }
            (Some(_), None) => break,
        };
    }
    push_text(&mut parts, &text[at..]);
    parts
}

/// Thinking without the newlines of its frame, and without what its own `strip` takes off; the text that follows it
/// begins without newlines.
fn unframed(parts: Vec<Value>, strip: impl Fn(&str) -> &str) -> Vec<Value> {
    let mut after_thinking = false;
    let mut out = Vec::new();
    for part in parts {
        if let Some(thinking) = part["thinking"].as_str() {
            let thinking = thinking.trim_matches('\n');
            if !thinking.is_empty() {
                out.push(json!({"type": "thinking", "thinking": strip(thinking)}));
            }
            after_thinking = true;
        } else {
            let text = part["text"].as_str().unwrap_or_default();
            let text = if after_thinking { text.trim_start_matches('\n') } else { text };
            out.push(json!({"type": "text", "text": text}));
            after_thinking = false;
        }
    }
    out
}

/// Id, name and arguments of a call as JSON.
fn json_call(text: &str) -> Result<(Option<String>, String, PythonJson), String> {
    let call = loads(strip(text)).map_err(|error| invalid_json(&error))?;
    if !call.is_object() {
        return Err("Tool call is not a JSON object".to_owned());
    }
    let name = call.get("name").and_then(PythonJson::as_text).ok_or("Missing or invalid 'name' field")?;
    let arguments = call.get("arguments").filter(|arguments| arguments.is_object());
    let arguments = arguments.ok_or("Missing or invalid 'arguments' field")?;
    Ok((call.get("id").and_then(PythonJson::as_text), name, arguments.clone()))
}

/// Name and arguments of a call as XML.
fn xml_call(raw_text: &str) -> Result<(String, PythonJson), &'static str> {
    let (name, body) = function(raw_text).ok_or("Malformed Qwen3.5 tool call XML")?;
    if strip(name).is_empty() {
        return Err("Missing function name");
    }
    let mut arguments: Vec<(Vec<u16>, PythonJson)> = Vec::new();
    let mut at = 0;
    while let Some((start, name, value, end)) = parameter(body, at) {
        if !strip(&body[at..start]).is_empty() {
            return Err("Unexpected non-parameter content inside <function> block");
        }
        let name: Vec<u16> = strip(name).encode_utf16().collect();
        if name.is_empty() {
            return Err("Empty parameter name");
        }
        let value = loads(value).unwrap_or_else(|_| PythonJson::String(value.encode_utf16().collect()));
        match arguments.iter_mut().find(|(earlier, _)| *earlier == name) {
            Some((_, earlier)) => *earlier = value,
            None => arguments.push((name, value)),
        }
        at = end;
    }
    match strip(&body[at..]).is_empty() {
        true => Ok((strip(name).to_owned(), PythonJson::Object(arguments))),
        false => Err("Unexpected trailing content inside <function> block"),
    }
}

/// Name and body of the function that fills a block.
fn function(raw_text: &str) -> Option<(&str, &str)> {
    let text = strip(raw_text).strip_prefix(OPEN)?.trim_start_matches(is_space).strip_prefix("<function=")?;
    let (name, rest) = tag_name(text)?;
    let body = rest.strip_suffix(CLOSE)?.trim_end_matches(is_space).strip_suffix("</function>")?;
    Some((name, strip(body)))
}

/// The next parameter at or after `from`: where it starts, its name, its value, and where it ends.
fn parameter(body: &str, from: usize) -> Option<(usize, &str, &str, usize)> {
    let (open, close) = ("<parameter=", "</parameter>");
    body[from..].match_indices(open).find_map(|(offset, _)| {
        let start = from + offset;
        let (name, rest) = tag_name(&body[start + open.len()..])?;
        let length = rest.find(close)?;
        let end = body.len() - rest.len() + length + close.len();
        Some((start, name, strip(&rest[..length]), end))
    })
}

/// A name of one line that `>` ends, and what follows.
fn tag_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('>')?;
    (!name.is_empty() && !name.contains('\n')).then_some((name, rest))
}
