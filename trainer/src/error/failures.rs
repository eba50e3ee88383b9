//! Rollouts that failed, for people.

use std::fmt;

/// Where an agent that called nobody finds the model.
const BASE_URL: &str = "an agent's client finds it at OPENAI_BASE_URL, and a warm agent's at `base_url` of each task";

/// Rollouts of a step that failed, and the cause that most of them have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Rollouts that failed.
    pub failed: usize,
    /// Rollouts of the step.
    pub rollouts: usize,
    /// The commonest cause: what the reasons of rollouts that failed alike have in common.
    pub cause: String,
    /// The whole reason of one of them.
    pub reason: String,
    /// Rollouts that failed for it.
    pub count: usize,
    /// How often the agents of those called the model, all together, in their last attempts; not known of what the agent did
    /// not fail.
    pub calls: Option<usize>,
    /// Whether they ended because their time was over.
    pub ran_out_of_time: bool,
    /// The last lines that one of their agents wrote to its standard error, if it wrote any.
    pub stderr_tail: Option<String>,
}

impl Failures {
    /// Whether at least half of the rollouts failed.
    pub fn are_most(&self) -> bool {
        self.failed * 2 >= self.rollouts
    }
}

/// The cause, how often, an example, whether the model was called, and what an agent said.
impl fmt::Display for Failures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} of the {} that failed)", self.cause, self.count, self.failed)?;
        if self.reason != self.cause {
            write!(formatter, "; for example: {}", self.reason)?;
        }
        if let Some(tail) = &self.stderr_tail {
            write!(formatter, "; the agent's standard error ended with\n    {}", tail.replace('\n', "\n    "))?;
        }
        match (self.calls, self.ran_out_of_time) {
            (Some(0), false) => write!(formatter, "\nhelp: the model was not called: {BASE_URL}"),
            (Some(0), true) => write!(
                formatter,
                "\nhelp: the model was not called: what takes long to start needs a greater [runner] timeout_seconds, or a \
                 smaller `parallel`; {BASE_URL}"
            ),
            (Some(calls), true) => write!(
                formatter,
                "\nhelp: the model was called {calls} times: an agent that needs longer gets a greater [runner] timeout_seconds"
            ),
            (Some(_), false) | (None, _) => Ok(()),
        }
    }
}
