use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::section_call::Arguments;
use crate::parsing::dialect::Dialect;
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// Recipients that are tools of the request.
const FUNCTIONS: &str = "functions.";

/// Reads Harmony: a turn of several messages, each with a header (role, recipient, channel) and a body. The channel
/// `analysis` is reasoning, others are text, and a body for `functions.NAME` is a call's arguments.
#[derive(Debug)]
pub(crate) struct Harmony {
    state: State,
}

#[derive(Debug)]
enum State {
    /// In a header that began there; `has_mark` where it holds a mark.
    Header { start: usize, has_mark: bool },
    /// In a body of reasoning or text.
    Prose(Prose),
    /// In the arguments of a call.
    Call(Arguments),
}

impl Harmony {
    /// A reader of a message that begins in a header, as behind `<|start|>assistant`.
    pub(crate) fn new() -> Self {
        Self { state: State::Header { start: 0, has_mark: false } }
    }

    fn begin_body(&mut self, header_start: usize, mark: Range<usize>, draft: &mut Draft) {
        let header = &draft.text()[header_start..mark.start];
        let channel = word_after(header, "<|channel|>");
        self.state = match called_function(header).map(str::to_owned) {
            Some(name) => {
                draft.open_call(header_start);
                draft.name_call(None, name);
                State::Call(Arguments::new(mark.end))
            }
            None if channel == Some("analysis") => State::Prose(Prose::Reasoning),
            None => State::Prose(Prose::Text),
        };
    }

    /// Ends what is open at `end`; the next header begins at `next`.
    fn close(&mut self, end: usize, next: usize, draft: &mut Draft) {
        let next = State::Header { start: next, has_mark: false };
        match std::mem::replace(&mut self.state, next) {
            State::Prose(_) => draft.close_prose(Ending::KeptUnlessBlank),
            State::Call(arguments) => {
                let arguments: Result<Value, String> = arguments.parse(draft.text());
                draft.close_call(end, arguments);
            }
            State::Header { start, .. } => close_header(start..end, draft),
        }
    }
}

/// A header without a body: a call that is none, or unexpected text.
fn close_header(header: Range<usize>, draft: &mut Draft) {
    if called_function(&draft.text()[header.clone()]).is_some() {
        draft.open_call(header.start);
        draft.close_call(header.end, Err("the call has no arguments".to_owned()));
    } else if !draft.text()[draft.sampled_range(header.clone())].trim().is_empty() {
        draft.prose(Prose::Text, header, Space::None, Space::None);
        draft.close_prose(Ending::Kept);
    }
}

impl Dialect for Harmony {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        match &mut self.state {
            State::Header { .. } => {}
            State::Prose(kind) => draft.prose(*kind, range, Space::None, Space::All),
            State::Call(arguments) => arguments.read(range.end, draft),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match (mark, &mut self.state) {
            (Mark::Body, State::Header { start, .. }) => {
                let start = *start;
                self.begin_body(start, range, draft);
            }
            (Mark::End, _) => self.close(range.start, range.end, draft),
            (Mark::Start, _) => {
                self.close(range.start, range.start, draft);
                self.state = State::Header { start: range.start, has_mark: true };
            }
            (_, State::Header { has_mark, .. }) => *has_mark = true,
            _ => self.text(range, draft),
        }
    }

    fn finish(&mut self, cut: bool, draft: &mut Draft) {
        let end = draft.text().len();
        match &self.state {
            // A header that was cut off says nothing yet.
            State::Header { start, has_mark: true } if cut && called_function(&draft.text()[*start..]).is_none() => {}
            _ => self.close(end, end, draft),
        }
    }
}

/// The function that a header is addressed to.
fn called_function(header: &str) -> Option<&str> {
    word_after(header, "to=")?.strip_prefix(FUNCTIONS).filter(|name| !name.is_empty())
}

/// What follows `mark`, up to white space or another mark.
fn word_after<'t>(header: &'t str, mark: &str) -> Option<&'t str> {
    let word = |(start, mark): (usize, &str)| {
        header[start + mark.len()..].split(|character: char| character.is_whitespace() || character == '<').next()
    };
    header.match_indices(mark).filter_map(word).find(|word| !word.is_empty())
}
