use super::blocks::{find_block, report_unterminated, think_blocks};
use super::draft::{Draft, strip};
use crate::python::python_json_decoder::{PythonJson, loads};
use crate::python::python_repr::python_repr;

const SECTION: (&str, &str) = ("<｜DSML｜ calls>", "</｜DSML｜ calls>");
const CALL: (&str, &str) = ("<｜DSML｜ invoke name=\"", "</｜DSML｜ invoke>");
const NAME_END: &str = "\">\n";
const ARGUMENT: (&str, &str) = ("<｜DSML｜ parameter name=\"", "</｜DSML｜ parameter>");
/// What stands between an argument's name and its value, and whether the value is text.
const KINDS: [(&str, bool); 2] = [("\" string=\"true\">", true), ("\" string=\"false\">", false)];

/// DeepSeek V4.1: text and thinking up to the first section of calls, and its calls.
pub(super) fn parse(text: &str) -> Draft {
    let mut draft = Draft::default();
    let mut content = text;
    if let Some(section) = find_block(text, 0, SECTION.0, SECTION.1) {
        content = &text[..section.outer.start];
        content = content.strip_suffix("\n\n").unwrap_or(content);
        parse_section(&text[content.len()..section.outer.end], &text[section.inner], &mut draft);
        let after = &text[section.outer.end..];
        if !strip(after).is_empty() {
            draft.unparsed(after, "Invalid DSML: output after calls block");
        }
    }
    let reported = draft.unparsed.len();
    report_unterminated(&mut draft, content, &[SECTION]);
    if draft.unparsed.len() == reported && content.contains("｜DSML｜") {
        draft.unparsed(content, "Invalid DSML: marker outside a calls block");
    }
    draft.content = think_blocks(content);
    draft
}

/// The calls of a section, none where anything else stands in it.
fn parse_section(raw_text: &str, inner: &str, draft: &mut Draft) {
    let (calls, outside) = elements(inner, CALL, |head| head.find(NAME_END).map(|at| (at, NAME_END.len(), ())));
    if calls.is_empty() || !strip(&outside).is_empty() {
        return draft.unparsed(raw_text, "Invalid DSML: malformed invoke");
    }
    for call in calls {
        match arguments(&call) {
            Ok(arguments) => draft.call(None, call.name, &arguments.dumps()),
            Err(error) => draft.unparsed(call.raw_text, &format!("Invalid DSML: {error}")),
        }
    }
}

fn arguments(call: &Element<'_, ()>) -> Result<PythonJson, String> {
    if strip(call.name).is_empty() {
        return Err("empty function name".to_owned());
    }
    let kind = |head: &str| KINDS.iter().filter_map(|(kind, text)| Some((head.find(kind)?, kind.len(), *text))).min();
    let (elements, outside) = elements(call.body, ARGUMENT, kind);
    if !strip(&outside).is_empty() {
        return Err("text outside parameters".to_owned());
    }
    let mut arguments: Vec<(Vec<u16>, PythonJson)> = Vec::new();
    for Element { name, kind: is_text, body, .. } in elements {
        if strip(name).is_empty() {
            return Err("empty parameter name".to_owned());
        }
        let key: Vec<u16> = name.encode_utf16().collect();
        if arguments.iter().any(|(earlier, _)| *earlier == key) {
            return Err(format!("duplicate parameter {}", python_repr(&minijinja::Value::from(name))));
        }
        let value = match is_text {
            true => PythonJson::String(body.encode_utf16().collect()),
            false => loads(body).map_err(|error| error.to_string())?,
        };
        arguments.push((key, value));
    }
    Ok(PythonJson::Object(arguments))
}

/// An element: its whole text, its name, what its head says beside the name, and what stands in it.
struct Element<'t, K> {
    raw_text: &'t str,
    name: &'t str,
    kind: K,
    body: &'t str,
}

/// The elements of a text and the text beside them. `head_end` finds where a head ends that begins with the name: up to
/// where the name goes, how long the rest is, and what it says.
fn elements<'t, K>(
    text: &'t str,
    (open, close): (&str, &str),
    head_end: impl Fn(&'t str) -> Option<(usize, usize, K)>,
) -> (Vec<Element<'t, K>>, String) {
    let mut elements = Vec::new();
    let mut outside = String::new();
    let mut rest = text;
    while let Some((before, head)) = rest.split_once(open) {
        // No later element has an end either.
        let Some((name_end, length, kind)) = head_end(head) else { break };
        let Some((body, after)) = head[name_end + length..].split_once(close) else { break };
        let raw_text = &rest[before.len()..rest.len() - after.len()];
        outside += before;
        elements.push(Element { raw_text, name: &head[..name_end], kind, body });
        rest = after;
    }
    (elements, outside + rest)
}
