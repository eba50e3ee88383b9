use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::value_scan::ValueScan;
use crate::parsing::calls::written_arguments::{Ended, WrittenArguments};
use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

const TEXT_NEXT_TO: &str = "text stands beside the arguments";
const NOT_WHOLE: &str = "the last argument is not whole";
const NO_HEAD: &str = "an argument has no name, or does not say whether it is text";

/// Ends a name in quotes, and the tag that it stands in.
const TAG_END: &str = "\">";
/// Stand between the name of an argument and its value, and say whether the value is text or JSON.
const KIND: &str = "\" string=\"";
const KINDS: [(&str, bool); 2] = [("true\">", true), ("false\">", false)];

/// Reads a call of DeepSeek's DSML while it is sampled, behind `<｜DSML｜ invoke`: ` name="NAME">`, and for each argument
/// `<｜DSML｜ parameter name="KEY" string="true">VALUE</｜DSML｜ parameter>`. Every argument is a piece of the JSON object
/// that the arguments are.
///
/// Only marks decide: what stands between two of them is looked at when the second comes. A value may hold the mark that
/// ends values: one ends it only where another argument follows, or the end of the call. JSON goes on
/// behind one only within a string.
#[derive(Debug)]
pub(crate) struct DsmlCall {
    state: DsmlState,
    arguments: WrittenArguments,
}

#[derive(Debug)]
enum DsmlState {
    /// In the head, which began there.
    Head { start: usize },
    /// In an argument, behind `<｜DSML｜ parameter`, or behind it: where a mark stands that may end it.
    Argument { start: usize, closing: Option<Range<usize>> },
    /// An argument has ended; nothing but white space may stand since `start`.
    Between { start: usize },
    /// This is no call.
    Wrong(String),
}

impl DsmlCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { state: DsmlState::Head { start }, arguments: WrittenArguments::default() }
    }

    /// Takes a mark that does not end the call.
    pub(crate) fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let Range { start: mark_start, end: mark_end } = range;
        let started = DsmlState::Argument { start: mark_end, closing: None };
        self.state = match (std::mem::replace(&mut self.state, DsmlState::Wrong(String::new())), mark) {
            (DsmlState::Head { start }, Mark::KeyOpen) => match take_name(start..mark_start, draft) {
                Ok(()) => started,
                Err(error) => DsmlState::Wrong(error),
            },
            (DsmlState::Head { .. }, _) => DsmlState::Wrong(TEXT_NEXT_TO.to_owned()),
            (DsmlState::Argument { start, closing: Some(closing) }, Mark::KeyOpen)
                if is_blank(closing.end..mark_start, draft) =>
            {
                match read(&draft.text()[start..closing.start]) {
                    Ok(Some((key, json))) => {
                        self.arguments.push(key, &json).map_or_else(DsmlState::Wrong, |()| started)
                    }
                    Ok(None) => DsmlState::Argument { start, closing: None },
                    Err(error) => DsmlState::Wrong(error),
                }
            }
            (DsmlState::Argument { start, .. }, Mark::ValueClose) if goes_on(&draft.text()[start..mark_start]) => {
                DsmlState::Argument { start, closing: Some(mark_start..mark_end) }
            }
            (DsmlState::Argument { start, .. }, Mark::ValueClose) => match read(&draft.text()[start..mark_start]) {
                Ok(Some((key, json))) => {
                    let pushed = self.arguments.push(key, &json);
                    pushed.map_or_else(DsmlState::Wrong, |()| DsmlState::Between { start: mark_end })
                }
                Ok(None) => DsmlState::Argument { start, closing: None },
                Err(error) => DsmlState::Wrong(error),
            },
            (DsmlState::Between { start }, Mark::KeyOpen) if is_blank(start..mark_start, draft) => started,
            (DsmlState::Between { .. }, _) => DsmlState::Wrong(TEXT_NEXT_TO.to_owned()),
            // Other marks are part of the value that they stand in.
            (DsmlState::Argument { start, .. }, _) => DsmlState::Argument { start, closing: None },
            (state, _) => state,
        };
    }

    /// The text of the arguments that has not left yet.
    pub(crate) fn take_pieces(&mut self) -> String {
        self.arguments.take_pieces()
    }

    /// Whether it can no longer become a call.
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self.state, DsmlState::Wrong(_))
    }

    /// Whether what follows may be a value's. Of what has no name or no kind it is not.
    pub(crate) fn is_in_text(&self, draft: &Draft) -> bool {
        matches!(&self.state, DsmlState::Argument { start, .. } if argument(&draft.text()[*start..]).is_some())
    }

    /// What the call is at `end`, where a mark stands that would end it. Names it, where it has no arguments.
    pub(crate) fn ended(&mut self, end: usize, draft: &mut Draft) -> Ended {
        match &self.state {
            DsmlState::Head { start } => match take_name(*start..end, draft) {
                Ok(()) => self.arguments.clone().end(),
                Err(error) => Ended::Broken(error),
            },
            DsmlState::Argument { start, closing: Some(closing) } if is_blank(closing.end..end, draft) => {
                match read(&draft.text()[*start..closing.start]) {
                    Ok(Some((key, json))) => self.arguments.clone().end_with(key, &json),
                    Ok(None) => Ended::InText(NOT_WHOLE.to_owned()),
                    Err(error) => Ended::Broken(error),
                }
            }
            DsmlState::Argument { .. } if !self.is_in_text(draft) => Ended::Broken(NOT_WHOLE.to_owned()),
            DsmlState::Between { start } if is_blank(*start..end, draft) => self.arguments.clone().end(),
            DsmlState::Between { .. } => Ended::Broken(TEXT_NEXT_TO.to_owned()),
            DsmlState::Argument { closing: Some(_), .. } => Ended::InText(TEXT_NEXT_TO.to_owned()),
            DsmlState::Argument { .. } => Ended::InText(NOT_WHOLE.to_owned()),
            DsmlState::Wrong(error) => Ended::Broken(error.clone()),
        }
    }
}

/// Names the call by its head, ` name="NAME">` and a line break.
fn take_name(range: Range<usize>, draft: &mut Draft) -> Result<(), String> {
    let head = draft.text()[range].trim_start().strip_prefix("name=\"");
    let (name, rest) = head.and_then(|head| head.split_once(TAG_END)).ok_or("nothing is called")?;
    if name.trim().is_empty() || name.contains(['<', '\n']) {
        return Err("nothing is called".to_owned());
    }
    if !rest.trim().is_empty() {
        return Err(TEXT_NEXT_TO.to_owned());
    }
    let name = name.to_owned();
    draft.name_call(None, name);
    Ok(())
}

/// Name, kind and value of an argument.
fn argument(text: &str) -> Option<(&str, bool, &str)> {
    let (key, rest) = text.trim_start().strip_prefix("name=\"")?.split_once(KIND)?;
    let (value, is_text) = KINDS.iter().find_map(|(kind, is_text)| Some((rest.strip_prefix(kind)?, *is_text)))?;
    (!key.trim().is_empty()).then_some((key, is_text, value))
}

/// Name and value of an argument, as JSON text. None where the value goes on: within a string.
fn read(text: &str) -> Result<Option<(&str, Cow<'_, str>)>, String> {
    let (key, is_text, value) = argument(text).ok_or(NO_HEAD)?;
    if key.contains(['<', '"', '\n']) {
        return Err(format!("`{key}` is no name of an argument"));
    }
    Ok(match is_text {
        true => Some((key, Value::from(value).to_string().into())),
        false => (!ends_in_string(value)).then_some((key, value.into())),
    })
}

/// Whether the value of an argument may go on behind a mark that ends values: text may, and JSON within a string.
fn goes_on(text: &str) -> bool {
    argument(text).is_none_or(|(_, is_text, value)| is_text || ends_in_string(value))
}

/// Whether JSON ends within a string.
fn ends_in_string(json: &str) -> bool {
    let mut scan = ValueScan::default();
    for byte in json.trim().bytes() {
        scan.step(byte);
    }
    scan.is_in_string()
}

fn is_blank(range: Range<usize>, draft: &Draft) -> bool {
    draft.text()[range].trim().is_empty()
}
