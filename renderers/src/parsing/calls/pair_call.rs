use std::ops::Range;

use serde_json::{Map, Value};

use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

const NO_NAME: &str = "nothing is called";
const NO_KEY: &str = "an argument has no name";
const TEXT_BESIDE: &str = "text stands beside the arguments";

/// Reads a call as `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` while it is sampled. Every argument leaves as
/// a piece of the JSON object that the arguments are.
///
/// Only marks decide, so that text needs no reading: what stands between two of them is looked at when the second comes.
#[derive(Debug)]
pub(crate) struct PairCall {
    state: State,
    name: String,
    arguments: Map<String, Value>,
}

#[derive(Debug)]
enum State {
    /// In the function's name, which began there.
    Name { start: usize },
    /// An argument or the end is to come; nothing but white space may stand since `start`.
    Between { start: usize },
    /// In an argument's name.
    Key { start: usize },
    /// The value is to come; nothing but white space may stand since `start`.
    BeforeValue { key: String, start: usize },
    /// In the value of an argument.
    Value { key: String, start: usize },
    /// The call has ended.
    Done,
    /// This is no call.
    Wrong(&'static str),
}

impl PairCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { state: State::Name { start }, name: String::new(), arguments: Map::new() }
    }

    /// Takes a mark that does not end the call.
    pub(crate) fn mark(&mut self, mark: Mark, range: Range<usize>, types: &ParameterTypes, draft: &mut Draft) {
        let Range { start: mark_start, end: mark_end } = range;
        self.state = match (std::mem::replace(&mut self.state, State::Done), mark) {
            (State::Name { start }, Mark::KeyOpen) => match self.take_name(start..mark_start, draft) {
                true => State::Key { start: mark_end },
                false => State::Wrong(NO_NAME),
            },
            (State::Between { start }, Mark::KeyOpen) if is_blank(start..mark_start, draft) => {
                State::Key { start: mark_end }
            }
            (State::Key { start }, Mark::KeyClose) => match draft.text()[start..mark_start].trim() {
                "" => State::Wrong(NO_KEY),
                key => State::BeforeValue { key: key.to_owned(), start: mark_end },
            },
            (State::BeforeValue { key, start }, Mark::ValueOpen) if is_blank(start..mark_start, draft) => {
                State::Value { key, start: mark_end }
            }
            (State::Value { key, start }, Mark::ValueClose) => {
                self.push_argument(key, start..mark_start, types, draft);
                State::Between { start: mark_end }
            }
            (State::Between { .. } | State::BeforeValue { .. }, _) => State::Wrong(TEXT_BESIDE),
            // Other marks are part of what they stand in.
            (state, _) => state,
        };
    }

    /// Ends the call at `end`.
    pub(crate) fn close(&mut self, end: usize, draft: &mut Draft) {
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Name { start } if self.take_name(start..end, draft) => {
                draft.push_arguments("{}".to_owned());
                State::Done
            }
            State::Name { .. } => State::Wrong(NO_NAME),
            State::Between { start } if is_blank(start..end, draft) => {
                draft.push_arguments("}".to_owned());
                State::Done
            }
            State::Between { .. } => State::Wrong(TEXT_BESIDE),
            State::Key { .. } | State::BeforeValue { .. } | State::Value { .. } => {
                State::Wrong("the last argument is not whole")
            }
            state => state,
        };
    }

    /// Takes the name of what is called; false where it is none.
    fn take_name(&mut self, range: Range<usize>, draft: &mut Draft) -> bool {
        let name = draft.text()[range].trim();
        let is_name =
            !name.is_empty() && !name.contains(|character: char| character.is_whitespace() || character == '<');
        if is_name {
            self.name = name.to_owned();
            draft.name_call(None, self.name.clone());
        }
        is_name
    }

    fn push_argument(&mut self, key: String, range: Range<usize>, types: &ParameterTypes, draft: &mut Draft) {
        let json = types.json_text(&self.name, &key, &draft.text()[range]);
        let open = if self.arguments.is_empty() { "{" } else { ", " };
        draft.push_arguments(format!("{open}{}: {json}", Value::from(&*key)));
        // It was made of what can be read as JSON, or of a string.
        self.arguments.insert(key, serde_json::from_str(&json).unwrap_or_default());
    }

    /// The arguments, or what is wrong with the call.
    pub(crate) fn arguments(&self) -> Result<Value, String> {
        match &self.state {
            State::Done => Ok(self.arguments.clone().into()),
            State::Wrong(error) => Err((*error).to_owned()),
            _ => Err("nothing ends the call".to_owned()),
        }
    }
}

fn is_blank(range: Range<usize>, draft: &Draft) -> bool {
    draft.text()[range].trim().is_empty()
}
