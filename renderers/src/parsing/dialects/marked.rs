use std::ops::Range;

use crate::parsing::calls::brace_call::BraceCall;
use crate::parsing::calls::call_list::CallList;
use crate::parsing::calls::json_call::Keys;
use crate::parsing::calls::section_call::{CallHead, SectionCall};
use crate::parsing::dialect::Dialect;
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// The keys of a call in a list of Mistral's or Phi's.
const KEYS: Keys = Keys { arguments: &["arguments", "parameters"], others: None };

/// Reads families that announce calls by a mark and put no section around them: Mistral, Phi, Gemma.
#[derive(Debug)]
pub(crate) struct Marked {
    form: CallForm,
    state: State,
    is_reasoning: bool,
    /// White space at the beginning of the text that comes next that is the format's.
    leading: Space,
}

/// How a family writes calls behind the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// A JSON list.
    List,
    /// A JSON list, or `NAME[ARGS]JSON`, perhaps with `[CALL_ID]ID` behind the name.
    ListOrNamed,
    /// `call:NAME{...}`.
    Braces,
}

#[derive(Debug)]
enum State {
    /// Reasoning or text.
    Prose,
    /// Behind the mark, before it is clear in which form.
    Opened {
        mark_end: usize,
    },
    List(CallList),
    Named(SectionCall),
    Braces(BraceCall),
}

impl Marked {
    /// A reader of a message that begins with text.
    pub(crate) fn new(form: CallForm) -> Self {
        Self { form, state: State::Prose, is_reasoning: false, leading: Space::None }
    }

    fn prose(&mut self, range: Range<usize>, draft: &mut Draft) {
        match self.is_reasoning {
            true => draft.prose(Prose::Reasoning, range, Space::All, Space::All),
            false => draft.prose(Prose::Text, range, self.leading, Space::All),
        }
    }

    fn mark_in_prose(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match mark {
            Mark::ThinkOpen if !self.is_reasoning => {
                draft.close_prose(Ending::KeptUnlessBlank);
                self.is_reasoning = true;
            }
            // The prompt may have opened it already.
            Mark::ThinkOpen if !draft.has_open_text() => {}
            Mark::ThinkClose if self.is_reasoning => {
                draft.close_prose(Ending::Stripped);
                self.is_reasoning = false;
                self.leading = Space::Newlines;
            }
            Mark::CallOpen | Mark::ListOpen => {
                draft.close_prose(Ending::Stripped);
                draft.open_call(range.start);
                self.state = match (self.form, mark) {
                    (CallForm::Braces, _) => State::Braces(BraceCall::new(range.end)),
                    (_, Mark::ListOpen) => State::List(CallList::new(range.end, true, &KEYS)),
                    (CallForm::List, _) => State::List(CallList::new(range.end, false, &KEYS)),
                    (CallForm::ListOrNamed, _) => State::Opened { mark_end: range.end },
                };
            }
            // Behind a list of calls.
            Mark::CallClose if self.leading == Space::All && !draft.has_open_text() => {}
            _ => self.prose(range, draft),
        }
    }

    /// Takes text of a call up to `end`.
    fn read(&mut self, end: usize, draft: &mut Draft) {
        if let State::Opened { mark_end } = self.state {
            self.state = match draft.text()[mark_end..end].trim_start().bytes().next() {
                None => return,
                Some(b'[' | b'{') => State::List(CallList::new(mark_end, false, &KEYS)),
                Some(_) => State::Named(SectionCall::new(mark_end, CallHead::NameAndId)),
            };
        }
        match &mut self.state {
            State::Prose | State::Opened { .. } => {}
            State::Named(call) => call.read(end, draft),
            State::Braces(call) => call.read(end, draft),
            State::List(list) => {
                list.read(end, draft);
                if let Some(list_end) = list.end() {
                    self.state = State::Prose;
                    self.leading = Space::All;
                    self.prose(list_end..end, draft);
                }
            }
        }
    }

    /// Ends what is open; the call's text goes up to `text_end`, and its mark up to `end`.
    fn close(&mut self, text_end: usize, end: usize, draft: &mut Draft) {
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Prose => {}
            State::Opened { .. } => draft.close_call(end, Err("nothing is called".to_owned())),
            State::List(list) => list.close(text_end, draft),
            State::Named(call) => {
                let arguments = call.arguments(draft.text());
                draft.close_call(text_end, arguments);
            }
            State::Braces(call) => call.close(text_end, end, draft),
        }
        self.leading = Space::All;
    }
}

impl Dialect for Marked {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        match self.state {
            State::Prose => self.prose(range, draft),
            _ => self.read(range.end, draft),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match (&mut self.state, mark) {
            (State::Prose, _) => self.mark_in_prose(mark, range, draft),
            // A text of the arguments may spell a mark that the tokenizer has no token for.
            (State::List(list), _) if list.is_in_call() => self.read(range.end, draft),
            (_, Mark::CallOpen | Mark::ListOpen) => {
                match &self.state {
                    State::Braces(_) => self.break_call(range.start, draft),
                    _ => self.close(range.start, range.start, draft),
                }
                self.mark_in_prose(mark, range, draft);
            }
            (State::Braces(_), Mark::CallClose) => self.close(range.start, range.end, draft),
            (_, Mark::CallClose) => self.close(range.start, range.start, draft),
            (State::Opened { mark_end }, Mark::Arguments) => {
                let mut call = SectionCall::new(*mark_end, CallHead::NameAndId);
                call.begin_arguments(range, draft);
                self.state = State::Named(call);
            }
            (State::Named(call), Mark::Arguments) => call.begin_arguments(range, draft),
            _ => self.read(range.end, draft),
        }
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        let end = draft.text().len();
        match &self.state {
            State::Prose if self.is_reasoning => draft.close_prose(Ending::Stripped),
            State::Prose => draft.close_prose(Ending::Kept),
            State::Braces(_) => self.break_call(end, draft),
            _ => self.close(end, end, draft),
        }
    }
}

impl Marked {
    /// Ends a call that its own end is missing of.
    fn break_call(&mut self, end: usize, draft: &mut Draft) {
        draft.close_call(end, Err("nothing ends the call".to_owned()));
        self.state = State::Prose;
        self.leading = Space::All;
    }
}
