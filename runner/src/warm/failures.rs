//! How a warm agent fails: one attempt, or as a whole.

/// Why an agent whose processes keep dying is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrashLoop {
    /// How many processes ended in a row without an answer.
    pub processes: u32,
    /// How the last one ended.
    pub how: String,
    /// The last line that it wrote.
    pub last_words: String,
}

/// An attempt went down with the process that held it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    /// How the process ended.
    pub reason: String,
    /// The end of what it wrote beside answers.
    pub log: String,
}

/// Why an attempt has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// There was none at its deadline.
    TimedOut {
        /// The end of what its process wrote beside answers.
        log: String,
    },
    /// Its process died.
    Lost(Lost),
}
