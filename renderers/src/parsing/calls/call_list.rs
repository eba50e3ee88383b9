use crate::parsing::calls::json_call::{JsonCall, Keys};
use crate::parsing::calls::written_arguments::Ended;
use crate::parsing::draft::Draft;

/// Reads a JSON list of calls behind the mark that announces it, or one call without a list, while it is sampled. The
/// first call is open already and begins with the mark.
#[derive(Debug)]
pub(crate) struct CallList {
    keys: &'static Keys,
    /// Up to here it has been read.
    at: usize,
    state: ListState,
    /// A call without a list ends what is read here.
    is_single: bool,
    /// How many calls have ended.
    calls: usize,
}

/// Whether a call that ends must be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// It may be broken.
    Any,
    /// One that is broken makes the list wrong, and stays open.
    Whole,
}

#[derive(Debug)]
enum ListState {
    /// The list is to begin.
    Start,
    /// The first call, or the end of an empty list, is to come.
    First,
    /// Another call is to come.
    Next,
    /// In a call.
    Call(Box<JsonCall>),
    /// A comma or the end is to come.
    Comma,
    /// The list has ended.
    Done,
    /// This is no list of calls.
    Wrong,
}

impl CallList {
    /// A reader of what begins at `start` of the draft's text; `is_open` where the mark holds the list's bracket.
    pub(crate) fn new(start: usize, is_open: bool, keys: &'static Keys) -> Self {
        let state = if is_open { ListState::First } else { ListState::Start };
        Self { keys, at: start, state, is_single: false, calls: 0 }
    }

    /// Where the list ended; what follows is not read.
    pub(crate) fn end(&self) -> Option<usize> {
        matches!(self.state, ListState::Done).then_some(self.at)
    }

    /// How many calls have ended.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Whether it can no longer become a list of calls.
    pub(crate) fn is_wrong(&self) -> bool {
        match &self.state {
            ListState::Call(call) => call.is_wrong(),
            state => matches!(state, ListState::Wrong),
        }
    }

    /// Reads on up to `end`, or to the end of the list.
    pub(crate) fn read(&mut self, end: usize, call_end: CallEnd, draft: &mut Draft) {
        while self.step(end, call_end, draft) {}
    }

    /// Reads one thing; false where more text is needed, or none.
    fn step(&mut self, end: usize, must: CallEnd, draft: &mut Draft) -> bool {
        match &mut self.state {
            ListState::Done | ListState::Wrong => return false,
            ListState::Call(call) => {
                call.read(end, draft);
                let Some(call_end) = call.end() else { return false };
                let arguments = call.arguments(call_end, draft.text());
                if must == CallEnd::Whole && arguments.is_err() {
                    self.state = ListState::Wrong;
                    return false;
                }
                draft.close_call(call_end, arguments);
                self.calls += 1;
                self.at = call_end;
                self.state = if self.is_single { ListState::Done } else { ListState::Comma };
                return true;
            }
            ListState::Start | ListState::First | ListState::Next | ListState::Comma => {}
        }
        let rest = draft.text()[self.at..end].trim_start();
        let start = end - rest.len();
        self.at = start;
        let Some(byte) = rest.bytes().next() else { return false };
        match (&self.state, byte) {
            (ListState::Start, b'[') => self.advance(ListState::First),
            (ListState::Comma, b',') => self.advance(ListState::Next),
            (ListState::Comma, b']') => self.advance(ListState::Done),
            (ListState::First, b']') => {
                // Nothing is called.
                draft.cancel_call();
                self.advance(ListState::Done);
            }
            (ListState::Start | ListState::First | ListState::Next, b'{') => {
                self.is_single = matches!(self.state, ListState::Start);
                if !draft.has_open_call() {
                    draft.open_call(start);
                }
                self.state = ListState::Call(Box::new(JsonCall::new(start, self.keys)));
            }
            _ => {
                if !draft.has_open_call() {
                    draft.open_call(start);
                }
                self.state = ListState::Wrong;
            }
        }
        true
    }

    /// Takes a byte.
    fn advance(&mut self, state: ListState) {
        self.at += 1;
        self.state = state;
    }

    /// What the call that is open is at `end`, where a mark stands that would end it. Calls that were read count, whether
    /// the list's end came or not.
    pub(crate) fn ended(&self, end: usize, text: &str) -> Option<Ended> {
        Some(match &self.state {
            ListState::Call(call) => call.ended(end, text),
            ListState::Start | ListState::First => Ended::Broken("nothing is called".to_owned()),
            ListState::Next | ListState::Comma | ListState::Done => return None,
            ListState::Wrong => Ended::Broken("this is no JSON list of calls".to_owned()),
        })
    }
}
