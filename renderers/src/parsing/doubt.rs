use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::written_arguments::Ended;
use crate::parsing::dialect::Dialect;
use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

/// Doubts that one message may raise. Behind them a mark ends the call that it stands in: every doubt may mean that what
/// follows is read again.
pub(crate) const MOST_DOUBTS: usize = 32;

/// A mark in a call that either ends it or stands in a text of its arguments. Which of both turns out by what follows: the
/// text ends as it must, or it does not.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// Where the call ends if the mark ends it, and what it is then.
    end: usize,
    ended: Ended,
    /// Whether a text of the call has begun another one before, which the mark would end.
    is_quoted: bool,
    /// What has come since, which then is no part of the call.
    since: Vec<Piece>,
}

/// A mark or text, and where it stands.
pub(crate) type Piece = (Option<Mark>, Range<usize>);

/// What a doubt leaves that was resolved against the text.
#[derive(Debug)]
pub(crate) struct Refuted {
    /// Whether the call that has ended is one.
    pub(crate) is_call: bool,
    /// What is to be read again.
    since: Vec<Piece>,
}

impl Doubt {
    /// A doubt whether a call has ended at `end`.
    pub(crate) fn new(end: usize, ended: Ended) -> Self {
        Self { end, ended, is_quoted: false, since: Vec::new() }
    }

    /// The doubt, of a mark that may end a call which a text quotes.
    pub(crate) fn quoted(self, is_quoted: bool) -> Self {
        Self { is_quoted, ..self }
    }

    /// Takes what follows.
    pub(crate) fn push(&mut self, mark: Option<Mark>, range: Range<usize>) {
        self.since.push((mark, range));
    }

    /// Whether the call is broken if the mark ends it, so that nothing of its arguments counts then.
    pub(crate) fn may_break(&self) -> bool {
        matches!(self.ended, Ended::InText(_))
    }

    /// Whether nothing but white space has stood since, up to `start`, of a call that would have ended broken.
    pub(crate) fn is_followed_at(&self, start: usize, draft: &Draft) -> bool {
        self.may_break() && !self.is_quoted && draft.text()[self.end..start].trim().is_empty()
    }

    /// Ends the call where it may have ended.
    pub(crate) fn refute(self, draft: &mut Draft) -> Refuted {
        let is_call = draft.end_call(self.end, self.ended);
        Refuted { is_call, since: self.since }
    }
}

impl Refuted {
    /// Reads again what was taken for text.
    pub(crate) fn replay(self, dialect: &mut dyn Dialect, draft: &mut Draft) {
        for (mark, range) in self.since {
            match mark {
                Some(mark) => dialect.mark(mark, range, draft),
                None => dialect.text(range, draft),
            }
        }
    }
}

impl Draft {
    /// Ends a call as what it is; false where it is broken.
    pub(crate) fn end_call(&mut self, end: usize, ended: Ended) -> bool {
        let arguments: Result<Value, String> = match ended {
            Ended::Whole { pieces, arguments } => {
                self.push_arguments(pieces);
                Ok(arguments)
            }
            Ended::InText(error) | Ended::Broken(error) => Err(error),
        };
        self.close_call(end, arguments)
    }
}
