//! What was found out about an attempt: its status, why, and what is kept of it.

use std::borrow::Cow;
use std::time::Duration;

use fulgurite_types::{Attempt, AttemptStatus, Fault};
use serde_json::{Map, Value, json};

use crate::process::run::Finished;

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
    /// Of what failed.
    pub fault: Fault,
    /// What else is known.
    pub facts: Facts,
}

impl Verdict {
    /// Ended with a reward.
    pub(crate) fn succeeded(facts: Facts) -> Self {
        Self { status: AttemptStatus::Succeeded, reason: None, fault: Fault::Agent, facts }
    }

    /// Ended without, by the agent's doing until another is said.
    pub(crate) fn failed(reason: impl Into<String>, facts: Facts) -> Self {
        Self { status: AttemptStatus::Failed, reason: Some(reason.into()), fault: Fault::Agent, facts }
    }

    /// The same by another's doing.
    pub(crate) fn fault_of(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// The attempt's metadata: what a person needs who asks how it went.
    pub(crate) fn metadata(&self, wall: Duration) -> Value {
        let mut metadata = json!({"wall_seconds": wall.as_secs_f64()});
        if let Some(reason) = &self.reason {
            metadata["reason"] = json!(reason);
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
    facts.insert("stderr_tail".to_owned(), json!(String::from_utf8_lossy(&agent.errors)));
    facts
}
