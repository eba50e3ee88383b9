//! What was found out about an attempt: its status, why, and what is kept of it.

use std::borrow::Cow;
use std::time::Duration;

use fulgurite_types::{Attempt, AttemptStatus, Fault};
use serde_json::{Map, Value, json};

use crate::launch::run::Finished;
use crate::world::WorldFault;

/// Key of the metadata under which the end of the agent's standard error is kept.
const STDERR_TAIL: &str = "stderr_tail";

/// Characters of a line of it that a reason quotes.
const QUOTED: usize = 200;

/// Bytes of an agent's output that are recorded at most.
const RECORDED_OUTPUT: usize = 64 << 10;

/// What is known of how the agent ended: a part of the attempt's metadata.
pub(crate) type Facts = Map<String, Value>;

/// What was found out about an attempt that is over.
pub(crate) struct Verdict {
    /// As the server is told.
    pub status: AttemptStatus,
    /// Why, if it failed.
    pub reason: Option<String>,
    /// What other attempts that fail alike have in common with it, where the reason's beginning is not that.
    pub cause: Option<&'static str>,
    /// Of what failed.
    pub fault: Fault,
    /// What else is known.
    pub facts: Facts,
}

impl Verdict {
    /// Ended with a reward.
    pub(crate) fn succeeded(facts: Facts) -> Self {
        Self { status: AttemptStatus::Succeeded, reason: None, cause: None, fault: Fault::Agent, facts }
    }

    /// Ended without, by the agent's doing until another is said.
    pub(crate) fn failed(reason: impl Into<String>, facts: Facts) -> Self {
        Self { status: AttemptStatus::Failed, reason: Some(reason.into()), cause: None, fault: Fault::Agent, facts }
    }

    /// The program of `role` was still running at the deadline, `timeout` after the agent's start. The `facts` hold the end of
    /// the agent's standard error, if it wrote any.
    pub(crate) fn timed_out(role: &str, timeout: Duration, facts: Facts) -> Self {
        let wrote = facts.get(STDERR_TAIL).and_then(Value::as_str).map(|tail| match last_line(tail) {
            Some(line) => format!(": the agent's standard error ends with {line:?}"),
            None => ": the agent wrote nothing to standard error".to_owned(),
        });
        let wrote = wrote.unwrap_or_default();
        let reason = format!("{role} still ran after {timeout:?} ([runner] timeout_seconds){wrote}");
        Self { status: AttemptStatus::Timeout, reason: Some(reason), cause: None, fault: Fault::Agent, facts }
    }

    /// The world cannot be made or looked at, by that one's doing.
    pub(crate) fn of_world(world: &WorldFault, fault: Fault, facts: Facts) -> Self {
        Self { cause: world.cause(), ..Self::failed(world.to_string(), facts).fault_of(fault) }
    }

    /// The same by another's doing.
    pub(crate) fn fault_of(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// The attempt's metadata: what a person needs who asks how it went.
    pub(crate) fn metadata(&self, wall: Duration) -> Value {
        let mut metadata = json!({"wall_seconds": wall.as_secs_f64()});
        if let Some(reason) = &self.reason {
            metadata[Attempt::REASON] = json!(reason);
            if let Some(cause) = self.cause {
                metadata[Attempt::CAUSE] = json!(cause);
            }
            metadata[Fault::KEY] = json!(self.fault);
        }
        if let Value::Object(metadata) = &mut metadata {
            metadata.extend(self.facts.clone());
        }
        metadata
    }
}

/// The end of what an agent printed, so that it can be graded again.
pub(crate) fn output_facts(output: &[u8]) -> Facts {
    let kept = &output[output.len().saturating_sub(RECORDED_OUTPUT)..];
    let text = String::from_utf8_lossy(kept);
    let is_whole = kept.len() == output.len() && matches!(text, Cow::Borrowed(_));
    let mut facts = Facts::from_iter([(Attempt::OUTPUT.to_owned(), json!(text))]);
    if !is_whole {
        facts.insert(Attempt::OUTPUT_IS_PARTIAL.to_owned(), json!(true));
    }
    facts
}

/// What is known of a process that has ended.
pub(crate) fn facts(agent: &Finished) -> Facts {
    let mut facts = Facts::new();
    facts.insert("exit_status".to_owned(), json!(agent.status.code()));
    facts.extend(output_facts(&agent.output));
    facts.extend(errors_facts(&String::from_utf8_lossy(&agent.errors)));
    facts
}

/// The end of an agent's standard error.
pub(crate) fn errors_facts(errors: &str) -> Facts {
    Facts::from_iter([(STDERR_TAIL.to_owned(), json!(errors))])
}

/// The last line of a text that is not blank, cut to what a person needs to recognise it.
fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(QUOTED).collect())
}
