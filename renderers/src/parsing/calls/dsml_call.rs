use std::ops::Range;

use serde_json::{Map, Value};

use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

const TEXT_BESIDE: &str = "text stands beside the arguments";

/// Ends a name in quotes, and the tag that it stands in.
const TAG_END: &str = "\">";
/// Stand between the name of an argument and its value, and say whether the value is text or JSON.
const KINDS: [(&str, bool); 2] = [("\" string=\"true\">", true), ("\" string=\"false\">", false)];

/// Reads a call of DeepSeek's DSML while it is sampled, behind `<｜DSML｜ invoke`: ` name="NAME">`, and for each argument
/// `<｜DSML｜ parameter name="KEY" string="true">VALUE</｜DSML｜ parameter>`. Every argument leaves as a piece of the JSON
/// object that the arguments are.
///
/// Only marks decide: what stands between two of them is looked at when the second comes.
#[derive(Debug)]
pub(crate) struct DsmlCall {
    state: State,
    arguments: Map<String, Value>,
}

#[derive(Debug)]
enum State {
    /// In the head, which began there.
    Head { start: usize },
    /// An argument or the end is to come; nothing but white space may stand since `start`.
    Between { start: usize },
    /// In an argument, behind `<｜DSML｜ parameter`.
    Argument { start: usize },
    /// The call has ended.
    Done,
    /// This is no call.
    Wrong(String),
}

impl DsmlCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { state: State::Head { start }, arguments: Map::new() }
    }

    /// Takes a mark that does not end the call.
    pub(crate) fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let Range { start: mark_start, end: mark_end } = range;
        self.state = match (std::mem::replace(&mut self.state, State::Done), mark) {
            (State::Head { start }, Mark::KeyOpen) => match take_name(start..mark_start, draft) {
                Ok(()) => State::Argument { start: mark_end },
                Err(error) => State::Wrong(error),
            },
            (State::Between { start }, Mark::KeyOpen) => match is_blank(start..mark_start, draft) {
                true => State::Argument { start: mark_end },
                false => text_beside(),
            },
            (State::Argument { start }, Mark::ValueClose) => match self.push_argument(start..mark_start, draft) {
                Ok(()) => State::Between { start: mark_end },
                Err(error) => State::Wrong(error),
            },
            (State::Head { .. } | State::Between { .. }, _) => text_beside(),
            // Other marks are part of the value that they stand in.
            (state, _) => state,
        };
    }

    /// Ends the call at `end`.
    pub(crate) fn close(&mut self, end: usize, draft: &mut Draft) {
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Head { start } => match take_name(start..end, draft) {
                Ok(()) => {
                    draft.push_arguments("{}".to_owned());
                    State::Done
                }
                Err(error) => State::Wrong(error),
            },
            State::Between { start } if is_blank(start..end, draft) => {
                draft.push_arguments("}".to_owned());
                State::Done
            }
            State::Between { .. } => text_beside(),
            State::Argument { .. } => State::Wrong("the last argument is not whole".to_owned()),
            state => state,
        };
    }

    /// Takes an argument: its name, its kind and its value.
    fn push_argument(&mut self, range: Range<usize>, draft: &mut Draft) -> Result<(), String> {
        let (key, is_text, value) =
            argument(&draft.text()[range]).ok_or("an argument has no name, or does not say whether it is text")?;
        if self.arguments.contains_key(key) {
            return Err(format!("the argument `{key}` stands there twice"));
        }
        let (json, value) = match is_text {
            true => (Value::from(value).to_string(), Value::from(value)),
            false => {
                let read = serde_json::from_str(value);
                (value.trim().to_owned(), read.map_err(|error| format!("the argument `{key}` is not JSON: {error}"))?)
            }
        };
        let open = if self.arguments.is_empty() { "{" } else { ", " };
        let delta = format!("{open}{}: {json}", Value::from(key));
        self.arguments.insert(key.to_owned(), value);
        draft.push_arguments(delta);
        Ok(())
    }

    /// The arguments, or what is wrong with the call.
    pub(crate) fn arguments(&self) -> Result<Value, String> {
        match &self.state {
            State::Done => Ok(self.arguments.clone().into()),
            State::Wrong(error) => Err(error.clone()),
            _ => Err("nothing ends the call".to_owned()),
        }
    }
}

/// Names the call by its head, ` name="NAME">` and a line break.
fn take_name(range: Range<usize>, draft: &mut Draft) -> Result<(), String> {
    let head = draft.text()[range].trim_start().strip_prefix("name=\"");
    let (name, rest) = head.and_then(|head| head.split_once(TAG_END)).ok_or("nothing is called")?;
    if name.trim().is_empty() {
        return Err("nothing is called".to_owned());
    }
    if !rest.trim().is_empty() {
        return Err(TEXT_BESIDE.to_owned());
    }
    let name = name.to_owned();
    draft.name_call(None, name);
    Ok(())
}

/// Name, kind and value of an argument.
fn argument(text: &str) -> Option<(&str, bool, &str)> {
    let text = text.trim_start().strip_prefix("name=\"")?;
    let kinds = KINDS.iter().filter_map(|(kind, is_text)| Some((text.find(kind)?, kind.len(), *is_text)));
    let (at, length, is_text) = kinds.min()?;
    let key = &text[..at];
    (!key.trim().is_empty()).then_some((key, is_text, &text[at + length..]))
}

fn text_beside() -> State {
    State::Wrong(TEXT_BESIDE.to_owned())
}

fn is_blank(range: Range<usize>, draft: &Draft) -> bool {
    draft.text()[range].trim().is_empty()
}
