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
    state: State,
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
enum State {
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
        let state = if is_open { State::First } else { State::Start };
        Self { keys, at: start, state, is_single: false, calls: 0 }
    }

    /// Where the list ended; what follows is not read.
    pub(crate) fn end(&self) -> Option<usize> {
        matches!(self.state, State::Done).then_some(self.at)
    }

    /// How many calls have ended.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Whether it can no longer become a list of calls.
    pub(crate) fn is_wrong(&self) -> bool {
        match &self.state {
            State::Call(call) => call.is_wrong(),
            state => matches!(state, State::Wrong),
        }
    }

    /// Reads on up to `end`, or to the end of the list.
    pub(crate) fn read(&mut self, end: usize, call_end: CallEnd, draft: &mut Draft) {
        while self.step(end, call_end, draft) {}
    }

    /// Reads one thing; false where more text is needed, or none.
    fn step(&mut self, end: usize, must: CallEnd, draft: &mut Draft) -> bool {
        match &mut self.state {
            State::Done | State::Wrong => return false,
            State::Call(call) => {
                call.read(end, draft);
                let Some(call_end) = call.end() else { return false };
                let arguments = call.arguments(call_end, draft.text());
                if must == CallEnd::Whole && arguments.is_err() {
                    self.state = State::Wrong;
                    return false;
                }
                draft.close_call(call_end, arguments);
                self.calls += 1;
                self.at = call_end;
                self.state = if self.is_single { State::Done } else { State::Comma };
                return true;
            }
            State::Start | State::First | State::Next | State::Comma => {}
        }
        let rest = draft.text()[self.at..end].trim_start();
        let start = end - rest.len();
        self.at = start;
        let Some(byte) = rest.bytes().next() else { return false };
        match (&self.state, byte) {
            (State::Start, b'[') => self.advance(State::First),
            (State::Comma, b',') => self.advance(State::Next),
            (State::Comma, b']') => self.advance(State::Done),
            (State::First, b']') => {
                // Nothing is called.
                draft.cancel_call();
                self.advance(State::Done);
            }
            (State::Start | State::First | State::Next, b'{') => {
                self.is_single = matches!(self.state, State::Start);
                if !draft.has_open_call() {
                    draft.open_call(start);
                }
                self.state = State::Call(Box::new(JsonCall::new(start, self.keys)));
            }
            _ => {
                if !draft.has_open_call() {
                    draft.open_call(start);
                }
                self.state = State::Wrong;
            }
        }
        true
    }

    /// Takes a byte.
    fn advance(&mut self, state: State) {
        self.at += 1;
        self.state = state;
    }

    /// What the call that is open is at `end`, where a mark stands that would end it. Calls that were read count, whether
    /// the list's end came or not.
    pub(crate) fn ended(&self, end: usize, text: &str) -> Option<Ended> {
        Some(match &self.state {
            State::Call(call) => call.ended(end, text),
            State::Start | State::First => Ended::Broken("nothing is called".to_owned()),
            State::Next | State::Comma | State::Done => return None,
            State::Wrong => Ended::Broken("this is no JSON list of calls".to_owned()),
        })
    }
}
