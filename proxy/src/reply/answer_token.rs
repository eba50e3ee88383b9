use std::ops::Deref;

use fulgurite_backends::SampledToken;

use crate::reply::assistant_message::Delta;

/// A token, and what may leave since the last one: often nothing, sometimes of several tokens.
pub(crate) struct AnswerToken {
    pub(crate) token: SampledToken,
    /// Whether it is more than the end of the turn.
    pub(crate) is_text: bool,
    pub(crate) deltas: Deltas,
}

/// What leaves with a token: one delta at most, but for the few tokens that end one thing and begin another.
pub(crate) enum Deltas {
    Few(Option<Delta>),
    Many(Vec<Delta>),
}

impl Default for Deltas {
    fn default() -> Self {
        Self::Few(None)
    }
}

impl Deltas {
    pub(crate) fn push(&mut self, delta: Delta) {
        match self {
            Self::Few(few) => match few.take() {
                None => *few = Some(delta),
                Some(first) => *self = Self::Many(vec![first, delta]),
            },
            Self::Many(deltas) => deltas.push(delta),
        }
    }
}

impl Deref for Deltas {
    type Target = [Delta];

    fn deref(&self) -> &[Delta] {
        match self {
            Self::Few(few) => few.as_slice(),
            Self::Many(deltas) => deltas,
        }
    }
}
