//! What is known of a trial that has been played.

use fulgurite_lab::visible::cut;
use fulgurite_types::{Attempt, AttemptStatus, Generation, StopReason};

use super::http_log::Seen;
use super::scripted_model::TrialState;
use super::trial::Trial;

/// One trial.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// Which.
    pub(crate) trial: Trial,
    /// How it ended.
    pub(crate) attempt: Attempt,
    /// The agent's requests.
    pub(crate) seen: Vec<Seen>,
    /// What the model saw of it.
    pub(crate) model: TrialState,
    /// The recorded calls.
    pub(crate) calls: Vec<RecordedCall>,
}

/// A call as it is recorded.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    /// Its tokens.
    pub(crate) generation: Generation,
    /// The text of its prompt.
    pub(crate) prompt: String,
    /// Whether it was made for the task, and not beside it.
    pub(crate) is_of_task: bool,
}

impl Evidence {
    /// Whether the agent came to its end by itself.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.model.has_ended && self.attempt.status == AttemptStatus::Succeeded
    }

    /// Whether it was still at it when its time was over.
    pub(crate) fn ran_out_of_time(&self) -> bool {
        self.attempt.status == AttemptStatus::Timeout
    }

    /// How it ended, for people.
    pub(crate) fn ending(&self) -> String {
        let noted = |key| self.attempt.metadata.as_ref().and_then(|metadata| metadata.get(key)?.as_str());
        let Some(reason) = noted("reason") else {
            let it = if self.model.has_ended { "it ended" } else { "it ended before its task did" };
            return it.to_owned();
        };
        match noted("stderr_tail").and_then(|tail| tail.lines().rfind(|line| !line.trim().is_empty())) {
            Some(last) => format!("{reason}: {}", cut(last.trim())),
            None => reason.to_owned(),
        }
    }

    /// Requests for an answer of the task's that were answered so.
    pub(crate) fn answered(&self, status: impl Fn(u16) -> bool) -> usize {
        self.seen.iter().filter(|seen| seen.is_of_task() && status(seen.status)).count()
    }

    /// The recorded calls of the task, in their order, without those that broke off.
    pub(crate) fn calls_of_task(&self) -> Vec<&Generation> {
        let whole = |call: &&RecordedCall| call.is_of_task && call.generation.stop_reason != StopReason::Error;
        self.calls.iter().filter(whole).map(|call| &call.generation).collect()
    }

    /// The text of the prompt of the task's last call.
    pub(crate) fn last_prompt(&self) -> &str {
        self.calls.iter().rfind(|call| call.is_of_task).map_or("", |call| &call.prompt)
    }

    /// How many sequences of tokens the task's calls make, each of which continues the one before it.
    pub(crate) fn trajectories(&self) -> usize {
        let calls = self.calls_of_task();
        let begins = |pair: &&[&Generation]| match pair {
            [earlier, later] => later.parent_id.as_ref() != Some(&earlier.generation_id),
            _ => false,
        };
        calls.len().min(1) + calls.windows(2).filter(begins).count()
    }

    /// Of the task's calls after the first, how many there are, and how many continue an earlier one token by token.
    pub(crate) fn continued(&self) -> (usize, usize) {
        let calls = self.calls_of_task();
        let continues = |call: &&&Generation| {
            let generations = || self.calls.iter().map(|call| &call.generation);
            let parent = generations().find(|parent| Some(&parent.generation_id) == call.parent_id.as_ref());
            parent.is_some_and(|parent| {
                let rest = call.prompt_tokens.strip_prefix(parent.prompt_tokens.as_slice());
                rest.is_some_and(|rest| rest.starts_with(&parent.sampled_tokens))
            })
        };
        let later = calls.get(1..).unwrap_or_default();
        (later.len(), later.iter().filter(continues).count())
    }
}
