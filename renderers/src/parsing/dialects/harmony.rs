use std::ops::Range;

use crate::parsing::calls::section_call::Arguments;
use crate::parsing::calls::written_arguments::Ended;
use crate::parsing::dialect::Dialect;
use crate::parsing::doubt::{Doubt, MOST_DOUBTS};
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// Recipients that are tools of the request.
const FUNCTIONS: &str = "functions.";

/// Reads Harmony: a turn of several messages, each with a header (role, recipient, channel) and a body. The channel
/// `analysis` is reasoning, others are text, and a body for `functions.NAME` is a call's arguments.
#[derive(Debug)]
pub(crate) struct Harmony {
    state: HarmonyState,
    /// Whether a mark has ended the call that is open, or stands in it.
    doubt: Option<Doubt>,
    doubts_left: usize,
}

#[derive(Debug)]
enum HarmonyState {
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
        Self { state: HarmonyState::Header { start: 0, has_mark: false }, doubt: None, doubts_left: MOST_DOUBTS }
    }

    fn begin_body(&mut self, header_start: usize, mark: Range<usize>, draft: &mut Draft) {
        let header = &draft.text()[header_start..mark.start];
        let channel = word_after(header, "<|channel|>");
        self.state = match called_function(header).map(str::to_owned) {
            Some(name) => {
                draft.open_call(header_start);
                draft.name_call(None, name);
                HarmonyState::Call(Arguments::new(mark.end))
            }
            None if channel == Some("analysis") => HarmonyState::Prose(Prose::Reasoning),
            None => HarmonyState::Prose(Prose::Text),
        };
    }

    /// Ends what is open at `end`; the next header begins at `next`.
    fn close(&mut self, end: usize, next: usize, draft: &mut Draft) {
        let next = HarmonyState::Header { start: next, has_mark: false };
        match std::mem::replace(&mut self.state, next) {
            HarmonyState::Prose(_) => draft.close_prose(Ending::KeptUnlessBlank),
            HarmonyState::Call(arguments) => {
                let ended = arguments.ended(draft.text());
                draft.end_call(end, ended);
            }
            HarmonyState::Header { start, .. } => close_header(start..end, draft),
        }
    }
}

impl Harmony {
    /// Whether a mark stands in a string of a call's arguments, as far as can be known; if not, it ends the message.
    fn stays_in_call(&mut self, mark: Mark, range: &Range<usize>, draft: &mut Draft) -> bool {
        let HarmonyState::Call(arguments) = &mut self.state else { return false };
        if let Some(doubt) = &mut self.doubt {
            doubt.push(Some(mark), range.clone());
        }
        match arguments.ended(draft.text()) {
            Ended::InText(_) if self.doubt.is_none() && self.doubts_left == 0 => return false,
            ended @ Ended::InText(_) => {
                if self.doubt.is_none() {
                    self.doubts_left -= 1;
                    let mut doubt = Doubt::new(range.start, ended);
                    doubt.push(Some(mark), range.clone());
                    self.doubt = Some(doubt);
                }
                arguments.read(range.end, draft);
            }
            Ended::Broken(_) if self.doubt.is_some() => self.refute(draft),
            _ => {
                self.doubt = None;
                return false;
            }
        }
        true
    }

    /// Takes text, or a mark, as part of a call's arguments.
    fn read_arguments(&mut self, mark: Option<Mark>, range: Range<usize>, draft: &mut Draft) {
        let HarmonyState::Call(arguments) = &mut self.state else { return };
        arguments.read(range.end, draft);
        if let Some(doubt) = &mut self.doubt {
            doubt.push(mark, range);
            if arguments.is_wrong() {
                self.refute(draft);
            }
        }
    }

    /// The mark that was in doubt has ended the call: what has come since is read again.
    fn refute(&mut self, draft: &mut Draft) {
        let Some(doubt) = self.doubt.take() else { return };
        self.state = HarmonyState::Prose(Prose::Text);
        doubt.refute(draft).replay(self, draft);
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
            HarmonyState::Header { .. } => {}
            HarmonyState::Prose(kind) => draft.prose(*kind, range, Space::None, Space::All),
            HarmonyState::Call(_) => self.read_arguments(None, range, draft),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        if matches!(mark, Mark::End | Mark::Start) && self.stays_in_call(mark, &range, draft) {
            return;
        }
        match (mark, &mut self.state) {
            (Mark::Body, HarmonyState::Header { start, .. }) => {
                let start = *start;
                self.begin_body(start, range, draft);
            }
            (Mark::End, _) => self.close(range.start, range.end, draft),
            (Mark::Start, _) => {
                self.close(range.start, range.start, draft);
                self.state = HarmonyState::Header { start: range.start, has_mark: true };
            }
            (_, HarmonyState::Header { has_mark, .. }) => *has_mark = true,
            (_, HarmonyState::Call(_)) => self.read_arguments(Some(mark), range, draft),
            _ => self.text(range, draft),
        }
    }

    fn finish(&mut self, cut: bool, draft: &mut Draft) {
        let end = draft.text().len();
        while self.doubt.is_some() {
            match &self.state {
                HarmonyState::Call(arguments) if arguments.parse(draft.text()).is_ok() => self.doubt = None,
                _ => self.refute(draft),
            }
        }
        match &self.state {
            // A header that was cut off says nothing yet.
            HarmonyState::Header { start, has_mark: true }
                if cut && called_function(&draft.text()[*start..]).is_none() => {}
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
