use super::blocks::find_block;
use super::draft::{Draft, strip};
use super::qwen::parts_and_calls;
use crate::python::python_json_decoder::{PythonJson, loads};
use crate::python::python_strings::is_space;

const KEY: (&str, &str) = ("<arg_key>", "</arg_key>");
const VALUE: (&str, &str) = ("<arg_value>", "</arg_value>");

/// GLM: thinking and text as they stand, calls as pairs or as JSON. Calls that are JSON come first.
pub(super) fn parse(text: &str) -> Draft {
    let mut draft = Draft::of_text(text.to_owned());
    if !text.contains("<think>") && !text.contains("<tool_call>") {
        return draft;
    }
    let mut unparsed = Vec::new();
    draft.content = parts_and_calls(text, &mut draft, &mut unparsed).into();
    for call in unparsed {
        match pair_call(&call.raw_text) {
            Ok((name, arguments)) => draft.call(None, name, &arguments.dumps()),
            Err(error) => draft.unparsed(&call.raw_text, error),
        }
    }
    draft
}

/// Name and arguments of a block `<tool_call>...</tool_call>`.
fn pair_call(raw_text: &str) -> Result<(&str, PythonJson), &'static str> {
    let inner = raw_text.strip_prefix("<tool_call>").and_then(|text| text.strip_suffix("</tool_call>"));
    let inner = strip(inner.unwrap_or_default());
    let body = inner.trim_start_matches(|character: char| character.is_alphanumeric() || "_-.".contains(character));
    let name = &inner[..inner.len() - body.len()];
    if name.is_empty() {
        return Err("Malformed GLM tool call");
    }
    let body = strip(body);
    let mut arguments: Vec<(Vec<u16>, PythonJson)> = Vec::new();
    let mut at = 0;
    while let Some(Pair { start, key, value, end }) = pair(body, at) {
        if !strip(&body[at..start]).is_empty() {
            return Err("Unexpected content between tool call arguments");
        }
        let key: Vec<u16> = strip(key).encode_utf16().collect();
        if key.is_empty() {
            return Err("Empty tool call argument key");
        }
        let value = loads(value).unwrap_or_else(|_| PythonJson::String(value.encode_utf16().collect()));
        match arguments.iter_mut().find(|(earlier, _)| *earlier == key) {
            Some((_, earlier)) => *earlier = value,
            None => arguments.push((key, value)),
        }
        at = end;
    }
    match strip(&body[at..]).is_empty() {
        true => Ok((name, PythonJson::Object(arguments))),
        false => Err("Unexpected trailing content inside tool call"),
    }
}

/// A key and its value, and where they stand.
struct Pair<'t> {
    start: usize,
    key: &'t str,
    value: &'t str,
    end: usize,
}

/// The next pair at or after `from`. A key goes on up to the first end of a key that a value follows.
fn pair(body: &str, from: usize) -> Option<Pair<'_>> {
    body[from..].match_indices(KEY.0).find_map(|(offset, _)| {
        let start = from + offset;
        let key_start = start + KEY.0.len();
        body[key_start..].match_indices(KEY.1).find_map(|(length, _)| {
            let key = &body[key_start..key_start + length];
            let rest = body[key_start + length + KEY.1.len()..].trim_start_matches(is_space);
            let value = find_block(rest, 0, VALUE.0, VALUE.1).filter(|value| value.outer.start == 0)?;
            let end = body.len() - rest.len() + value.outer.end;
            Some(Pair { start, key, value: &rest[value.inner], end })
        })
    })
}
