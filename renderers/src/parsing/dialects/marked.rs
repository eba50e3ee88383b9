use std::ops::Range;

use crate::parsing::calls::brace_call::BraceCall;
use crate::parsing::calls::call_list::{CallEnd, CallList};
use crate::parsing::calls::json_call::Keys;
use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::section_call::{CallHead, SectionCall};
use crate::parsing::calls::written_arguments::Ended;
use crate::parsing::dialect::Dialect;
use crate::parsing::doubt::{Doubt, MOST_DOUBTS};
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// The keys of a call in a list of Mistral's or Phi's.
const KEYS: Keys = Keys { arguments: &["arguments", "parameters"], others: None };

/// Reads families that announce calls by a mark and put no section around them: Mistral, Phi, Gemma.
#[derive(Debug)]
pub(crate) struct Marked {
    form: CallForm,
    types: ParameterTypes,
    state: MarkedState,
    is_reasoning: bool,
    /// White space at the beginning of the text that comes next that is the format's.
    leading: Space,
    /// Whether a mark has ended the call that is open, or stands in it; and how many of a list had ended before.
    doubt: Option<(Doubt, usize)>,
    doubts_left: usize,
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
enum MarkedState {
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
    pub(crate) fn new(form: CallForm, types: ParameterTypes) -> Self {
        Self {
            form,
            types,
            state: MarkedState::Prose,
            is_reasoning: false,
            leading: Space::None,
            doubt: None,
            doubts_left: MOST_DOUBTS,
        }
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
                    (CallForm::Braces, _) => MarkedState::Braces(BraceCall::new(range.end)),
                    (_, Mark::ListOpen) => MarkedState::List(CallList::new(range.end, true, &KEYS)),
                    (CallForm::List, _) => MarkedState::List(CallList::new(range.end, false, &KEYS)),
                    (CallForm::ListOrNamed, _) => MarkedState::Opened { mark_end: range.end },
                };
            }
            // Behind a list of calls.
            Mark::CallClose if self.leading == Space::All && !draft.has_open_text() => {}
            _ => self.prose(range, draft),
        }
    }

    /// Takes text of a call up to `end`.
    fn read(&mut self, end: usize, draft: &mut Draft) {
        if let MarkedState::Opened { mark_end } = self.state {
            self.state = match draft.text()[mark_end..end].trim_start().bytes().next() {
                None => return,
                Some(b'[' | b'{') => MarkedState::List(CallList::new(mark_end, false, &KEYS)),
                Some(_) => MarkedState::Named(SectionCall::new(mark_end, CallHead::NameAndId)),
            };
        }
        match &mut self.state {
            MarkedState::Prose | MarkedState::Opened { .. } => {}
            MarkedState::Named(call) => {
                call.read(end, draft);
                if self.doubt.is_some() && call.is_wrong() {
                    self.refute(draft);
                }
            }
            MarkedState::Braces(call) => call.read(end, draft),
            MarkedState::List(list) => {
                list.read(end, if self.doubt.is_some() { CallEnd::Whole } else { CallEnd::Any }, draft);
                let (calls, list_end) = (list.calls(), list.end());
                match &self.doubt {
                    Some(_) if list.is_wrong() => return self.refute(draft),
                    Some((_, before)) if calls > *before => self.doubt = None,
                    _ => {}
                }
                if let Some(list_end) = list_end {
                    self.state = MarkedState::Prose;
                    self.leading = Space::All;
                    self.prose(list_end..end, draft);
                }
            }
        }
    }

    /// Takes a mark that ends what is open, or stands in a text of it.
    fn mark_of_end(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let ends_with_mark = matches!(self.state, MarkedState::Braces(_)) && mark == Mark::CallClose;
        let end = if ends_with_mark { range.end } else { range.start };
        // Where a text of Gemma's ends, nothing but what follows tells.
        if let (MarkedState::Braces(_), Some((doubt, _))) = (&self.state, &self.doubt)
            && mark == Mark::CallOpen
            && doubt.is_followed_at(range.start, draft)
        {
            return self.refute(draft);
        }
        match self.ended(range.start, draft) {
            Some(Ended::InText(_)) if self.doubt.is_some() => return self.read(range.end, draft),
            Some(ended @ Ended::InText(_)) if self.doubts_left > 0 => {
                self.doubts_left -= 1;
                let mut doubt = Doubt::new(end, ended);
                if mark != Mark::CallClose {
                    doubt.push(Some(mark), range.clone());
                }
                let calls = if let MarkedState::List(list) = &self.state { list.calls() } else { 0 };
                self.doubt = Some((doubt, calls));
                return self.read(range.end, draft);
            }
            Some(Ended::Broken(_)) if self.doubt.is_some() => return self.refute(draft),
            _ => {}
        }
        self.doubt = None;
        match &self.state {
            MarkedState::Braces(_) if !ends_with_mark => self.break_call(range.start, draft),
            _ => self.close(range.start, end, draft),
        }
        if mark != Mark::CallClose {
            self.mark_in_prose(mark, range, draft);
        }
    }

    /// What is open, where a mark stands that would end it.
    fn ended(&self, text_end: usize, draft: &Draft) -> Option<Ended> {
        match &self.state {
            MarkedState::Prose => None,
            MarkedState::Opened { .. } => Some(Ended::Broken("nothing is called".to_owned())),
            MarkedState::List(list) => list.ended(text_end, draft.text()),
            MarkedState::Named(call) => Some(call.ended(draft.text())),
            MarkedState::Braces(call) => Some(call.ended(text_end, draft.text(), &self.types)),
        }
    }

    /// Ends what is open; the call's text goes up to `text_end`, and its mark up to `end`.
    fn close(&mut self, text_end: usize, end: usize, draft: &mut Draft) {
        let is_call = match self.ended(text_end, draft) {
            Some(ended) => draft.end_call(end, ended),
            None => true,
        };
        self.state = MarkedState::Prose;
        self.leading = Space::behind_call(is_call);
    }

    /// The mark that was in doubt has ended the call: what has come since is read again.
    fn refute(&mut self, draft: &mut Draft) {
        let Some((doubt, _)) = self.doubt.take() else { return };
        self.state = MarkedState::Prose;
        let refuted = doubt.refute(draft);
        self.leading = Space::behind_call(refuted.is_call);
        refuted.replay(self, draft);
    }
}

impl Dialect for Marked {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        if let Some((doubt, _)) = &mut self.doubt {
            doubt.push(None, range.clone());
        }
        match self.state {
            MarkedState::Prose => self.prose(range, draft),
            _ => self.read(range.end, draft),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        if let Some((doubt, _)) = &mut self.doubt {
            doubt.push(Some(mark), range.clone());
        }
        match (&mut self.state, mark) {
            (MarkedState::Prose, _) => self.mark_in_prose(mark, range, draft),
            (_, Mark::CallOpen | Mark::ListOpen | Mark::CallClose) => self.mark_of_end(mark, range, draft),
            (MarkedState::Opened { mark_end }, Mark::Arguments) => {
                let mut call = SectionCall::new(*mark_end, CallHead::NameAndId);
                call.begin_arguments(range, draft);
                self.state = MarkedState::Named(call);
            }
            (MarkedState::Named(call), Mark::Arguments) => call.begin_arguments(range, draft),
            _ => self.read(range.end, draft),
        }
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        let end = draft.text().len();
        // The end of a message ends a call without braces, and settles what is whole.
        while self.doubt.is_some() {
            match self.ended(end, draft) {
                Some(Ended::Whole { .. }) if !matches!(self.state, MarkedState::Braces(_)) => self.doubt = None,
                _ => self.refute(draft),
            }
        }
        match &self.state {
            MarkedState::Prose if self.is_reasoning => draft.close_prose(Ending::Stripped),
            MarkedState::Prose => draft.close_prose(Ending::Kept),
            MarkedState::Braces(_) => self.break_call(end, draft),
            _ => self.close(end, end, draft),
        }
    }
}

impl Marked {
    /// Ends a call that its own end is missing of.
    fn break_call(&mut self, end: usize, draft: &mut Draft) {
        draft.close_call(end, Err("nothing ends the call".to_owned()));
        self.state = MarkedState::Prose;
        self.leading = Space::None;
    }
}
