//! What an agent is put through.

/// One rollout each, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trial {
    /// Nothing goes wrong.
    Plain,
    /// The second answer breaks off in its middle when it is first asked for.
    BrokenAnswer,
    /// The model's host fails before the second answer's first token, twice.
    ServerError,
    /// The first call is answered with 429.
    RateLimit,
    /// The model never ends, and the budget of calls does.
    Budget,
}

impl Trial {
    /// In the order in which they are played.
    pub(crate) const ALL: [Self; 5] =
        [Self::Plain, Self::BrokenAnswer, Self::ServerError, Self::RateLimit, Self::Budget];

    /// Calls of [`Budget`](Self::Budget); side requests among them.
    pub(crate) const CALLS: u64 = 4;

    /// For people, for its rollout's id and for its prompt.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::BrokenAnswer => "broken-answer",
            Self::ServerError => "server-error",
            Self::RateLimit => "rate-limit",
            Self::Budget => "budget",
        }
    }

    /// Its rollout.
    pub(crate) fn rollout_id(self) -> String {
        format!("ro-check-{}", self.name())
    }

    /// By the id of its rollout.
    pub(crate) fn of_rollout(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trial| trial.rollout_id() == id)
    }

    /// What the agent is told to do.
    pub(crate) fn task(self) -> String {
        format!("Write a word into the file a.txt, read it, and say what it is. {}", self.mark())
    }

    /// By what a prompt is recognised.
    fn mark(self) -> String {
        format!("(fulgurite harness check: {})", self.name())
    }

    /// Whose task is in this text.
    pub(crate) fn named_in(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trial| text.contains(&trial.mark()))
    }
}
