use std::ops::Range;

use crate::parsing::calls::json_call::{JsonCall, Keys};
use crate::parsing::dialect::Dialect;
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// What may stand between two calls.
const SEPARATOR: char = ';';

/// The keys of a call in Llama's JSON. Other keys make it an answer that happens to be JSON.
const KEYS: Keys = Keys { arguments: &["parameters", "arguments"], others: Some(&["type", "id"]) };

/// Reads Llama 3.1: text, or calls that are the whole message as JSON, with or without `<|python_tag|>` before each, and
/// with white space or a `;` between them.
#[derive(Debug)]
pub(crate) struct Llama {
    state: LlamaState,
}

#[derive(Debug)]
enum LlamaState {
    /// Nothing but white space has been sampled since `start`.
    Start { start: usize },
    /// In JSON that may be a call; `tagged` where `<|python_tag|>` says that it is one. `behind`: where the text behind the
    /// call before it begins, and its white space that is the format's.
    Call { call: Box<JsonCall>, tagged: bool, behind: Option<(usize, Space)> },
    /// Nothing but white space and a `;` has been sampled since a call, which ended at `start`.
    Behind { start: usize, leading: Space },
    /// In text. White space at its beginning that is the format's: that behind a call says nothing.
    Text { leading: Space },
}

impl Llama {
    /// A reader of a message that begins.
    pub(crate) fn new() -> Self {
        Self { state: LlamaState::Start { start: 0 } }
    }

    fn read_call(&mut self, end: usize, draft: &mut Draft) {
        let LlamaState::Call { call, tagged, .. } = &mut self.state else { return };
        call.read(end, draft);
        if let Some(call_end) = call.end() {
            let arguments = call.arguments(call_end, draft.text());
            if call.is_named() || *tagged {
                let leading = Space::behind_call(draft.close_call(call_end, arguments));
                self.state = LlamaState::Behind { start: call_end, leading };
                self.read_behind(call_end, leading, end, draft);
            } else {
                self.give_up(end, draft);
            }
        } else if call.is_wrong() && !call.is_named() && !*tagged {
            self.give_up(end, draft);
        }
    }

    /// Looks for another call in what follows one that ended at `start`.
    fn read_behind(&mut self, start: usize, leading: Space, end: usize, draft: &mut Draft) {
        let text = draft.text()[start..end].trim_start();
        let text = text.strip_prefix(SEPARATOR).unwrap_or(text).trim_start();
        match text.bytes().next() {
            None => {}
            Some(b'{') => {
                let call_start = end - text.len();
                draft.open_call(call_start);
                let call = Box::new(JsonCall::new(call_start, &KEYS));
                self.state = LlamaState::Call { call, tagged: false, behind: Some((start, leading)) };
                self.read_call(end, draft);
            }
            Some(_) => {
                self.state = LlamaState::Text { leading };
                draft.prose(Prose::Text, start..end, leading, Space::None);
            }
        }
    }

    /// What looked like a call is text, with what stands between it and the call before.
    fn give_up(&mut self, end: usize, draft: &mut Draft) {
        let behind = match self.state {
            LlamaState::Call { behind, .. } => behind,
            _ => None,
        };
        let leading = behind.map_or(Space::None, |(_, leading)| leading);
        self.state = LlamaState::Text { leading };
        if let Some(start) = draft.cancel_call() {
            draft.prose(Prose::Text, behind.map_or(start, |(start, _)| start)..end, leading, Space::None);
        }
    }
}

impl Dialect for Llama {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        match self.state {
            LlamaState::Start { start } => {
                let trimmed = draft.text()[start..range.end].trim_start();
                if trimmed.is_empty() {
                    return;
                }
                let trimmed_start = range.end - trimmed.len();
                if trimmed.starts_with('{') {
                    draft.open_call(trimmed_start);
                    let call = Box::new(JsonCall::new(trimmed_start, &KEYS));
                    self.state = LlamaState::Call { call, tagged: false, behind: None };
                    self.read_call(range.end, draft);
                } else {
                    self.state = LlamaState::Text { leading: Space::None };
                    draft.prose(Prose::Text, start..range.end, Space::None, Space::None);
                }
            }
            LlamaState::Call { .. } => self.read_call(range.end, draft),
            LlamaState::Behind { start, leading } => self.read_behind(start, leading, range.end, draft),
            LlamaState::Text { leading } => draft.prose(Prose::Text, range, leading, Space::None),
        }
    }

    fn mark(&mut self, _: Mark, range: Range<usize>, draft: &mut Draft) {
        match &self.state {
            LlamaState::Start { .. } | LlamaState::Behind { .. } => {
                draft.open_call(range.start);
                let call = Box::new(JsonCall::new(range.end, &KEYS));
                self.state = LlamaState::Call { call, tagged: true, behind: None };
            }
            _ => self.text(range, draft),
        }
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        let end = draft.text().len();
        match &self.state {
            LlamaState::Start { start } => draft.prose(Prose::Text, *start..end, Space::None, Space::None),
            LlamaState::Call { call, tagged, .. } if call.is_named() || *tagged => {
                let arguments = call.arguments(end, draft.text());
                draft.close_call(end, arguments);
            }
            LlamaState::Call { .. } => self.give_up(end, draft),
            LlamaState::Behind { start, leading } => draft.prose(Prose::Text, *start..end, *leading, Space::None),
            LlamaState::Text { .. } => {}
        }
        draft.close_prose(Ending::Kept);
    }
}
