use serde::{Deserialize, Serialize};

/// What is done with fields that are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// They are named in the answer's header `x-fulgurite-ignored`, counted, and said once in the log.
    #[default]
    Ignore,
    /// The request is refused.
    Refuse,
}

/// The fields of a request that were left out of account.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Wishes.
    pub(crate) hints: Vec<String>,
    /// Fields that no dialect has.
    pub(crate) unknown: Vec<String>,
}

impl LeftOut {
    /// Adds others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.hints.extend(others.hints);
        self.unknown.extend(others.unknown);
    }
}
