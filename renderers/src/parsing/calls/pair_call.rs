use std::ops::Range;

use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::value_scan::ValueEnd;
use crate::parsing::calls::written_arguments::{Ended, WrittenArguments};
use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

const NO_NAME: &str = "nothing is called";
const NO_KEY: &str = "an argument has no name";
const TEXT_NEXT_TO: &str = "text stands beside the arguments";
const NOT_WHOLE: &str = "the last argument is not whole";

/// Reads a call as `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` while it is sampled. Every argument is a piece
/// of the JSON object that the arguments are.
///
/// Only marks decide, so that text needs no reading: what stands between two of them is looked at when the second comes.
/// A value may hold `</arg_value>` itself: one ends it only where another argument follows, or the end of the call. A
/// value that is never text ends where it is whole.
#[derive(Debug)]
pub(crate) struct PairCall {
    state: PairState,
    name: String,
    arguments: WrittenArguments,
}

#[derive(Debug)]
enum PairState {
    /// In the function's name, which began there.
    Name { start: usize },
    /// In an argument's name.
    Key { start: usize },
    /// The value is to come; nothing but white space may stand since `start`.
    BeforeValue { key: String, start: usize },
    /// In the value of an argument, or behind it: where a mark stands that may end it.
    Value { key: String, start: usize, closing: Option<Range<usize>>, value_end: ValueEnd },
    /// A value has ended; nothing but white space may stand since `start`.
    Between { start: usize },
    /// The call has ended.
    Done,
    /// This is no call.
    Wrong(String),
}

impl PairCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { state: PairState::Name { start }, name: String::new(), arguments: WrittenArguments::default() }
    }

    /// Takes a mark that does not end the call.
    pub(crate) fn mark(&mut self, mark: Mark, range: Range<usize>, types: &ParameterTypes, draft: &mut Draft) {
        let Range { start: mark_start, end: mark_end } = range;
        self.state = match (std::mem::replace(&mut self.state, PairState::Done), mark) {
            (PairState::Name { start }, Mark::KeyOpen) => match self.take_name(start..mark_start, draft) {
                true => PairState::Key { start: mark_end },
                false => wrong(NO_NAME),
            },
            (PairState::Name { .. }, Mark::KeyClose | Mark::ValueOpen | Mark::ValueClose) => wrong(NO_NAME),
            (PairState::Key { start }, Mark::KeyClose) => match draft.text()[start..mark_start].trim() {
                "" => wrong(NO_KEY),
                key if key.contains(['<', '\n']) => PairState::Wrong(format!("`{key}` is no name of an argument")),
                key => match types.check_name(&self.name, key) {
                    Ok(()) => PairState::BeforeValue { key: key.to_owned(), start: mark_end },
                    Err(error) => PairState::Wrong(error),
                },
            },
            (PairState::Key { .. }, _) => wrong("no `</arg_key>` ends the name of an argument"),
            (PairState::BeforeValue { key, start }, Mark::ValueOpen) if is_blank(start..mark_start, draft) => {
                PairState::Value { key, start: mark_end, closing: None, value_end: ValueEnd::new(mark_end) }
            }
            (PairState::BeforeValue { .. }, _) => wrong(TEXT_NEXT_TO),
            (PairState::Value { key, start, closing: Some(closing), .. }, Mark::KeyOpen)
                if is_blank(closing.end..mark_start, draft) =>
            {
                let json = types.json_text(&self.name, &key, &draft.text()[start..closing.start]);
                self.arguments.push(&key, &json).map_or_else(PairState::Wrong, |()| PairState::Key { start: mark_end })
            }
            (PairState::Value { key, start, mut value_end, .. }, Mark::ValueClose) => {
                let written = &draft.text()[start..mark_start];
                let may_end = value_end.is_first_outside(draft.text(), mark_start);
                if may_end && types.is_whole(&self.name, &key, written) {
                    let json = types.json_text(&self.name, &key, written);
                    let pushed = self.arguments.push(&key, &json);
                    pushed.map_or_else(PairState::Wrong, |()| PairState::Between { start: mark_end })
                } else {
                    PairState::Value { key, start, closing: Some(mark_start..mark_end), value_end }
                }
            }
            (PairState::Value { key, start, value_end, .. }, _) => {
                PairState::Value { key, start, closing: None, value_end }
            }
            (PairState::Between { start }, Mark::KeyOpen) if is_blank(start..mark_start, draft) => {
                PairState::Key { start: mark_end }
            }
            (PairState::Between { .. }, _) => wrong(TEXT_NEXT_TO),
            // Other marks are part of what they stand in.
            (state, _) => state,
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

    /// The text of the arguments that has not left yet.
    pub(crate) fn take_pieces(&mut self) -> String {
        self.arguments.take_pieces()
    }

    /// Whether it can no longer become a call.
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self.state, PairState::Wrong(_))
    }

    /// Whether what follows may be a value's.
    pub(crate) fn is_in_text(&self) -> bool {
        matches!(self.state, PairState::Value { .. })
    }

    /// What the call is at `end`, where a mark stands that would end it. Names it, where it has no arguments.
    pub(crate) fn ended(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) -> Ended {
        if let PairState::Name { start } = self.state {
            return match self.take_name(start..end, draft) {
                true => self.arguments.clone().end(),
                false => Ended::Broken(NO_NAME.to_owned()),
            };
        }
        match &self.state {
            PairState::Between { start } if is_blank(*start..end, draft) => self.arguments.clone().end(),
            PairState::Between { .. } => Ended::Broken(TEXT_NEXT_TO.to_owned()),
            PairState::Value { key, start, closing: Some(closing), .. } if is_blank(closing.end..end, draft) => {
                let json = types.json_text(&self.name, key, &draft.text()[*start..closing.start]);
                self.arguments.clone().end_with(key, &json)
            }
            PairState::Value { closing: Some(_), .. } => Ended::InText(TEXT_NEXT_TO.to_owned()),
            PairState::Value { .. } => Ended::InText(NOT_WHOLE.to_owned()),
            PairState::Wrong(error) => Ended::Broken(error.clone()),
            _ => Ended::Broken(NOT_WHOLE.to_owned()),
        }
    }
}

fn wrong(error: &str) -> PairState {
    PairState::Wrong(error.to_owned())
}

fn is_blank(range: Range<usize>, draft: &Draft) -> bool {
    draft.text()[range].trim().is_empty()
}
