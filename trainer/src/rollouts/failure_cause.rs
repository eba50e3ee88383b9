//! Who failed a rollout: what the policy cannot bring about is no verdict on it.

use std::collections::BTreeMap;

use fulgurite_types::{Attempt, AttemptStatus, Fault};

/// Who failed a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailureCause {
    /// A model host, which did not answer a call.
    Host,
    /// What was to grade it.
    Grader,
    /// Whoever was to run it: it could not begin, or was not heard of any more.
    Runner,
    /// What was to make its world.
    World,
    /// The agent, which crashed, took too long or left no reward; the policy may have made it do so.
    Agent,
}

impl FailureCause {
    /// Who failed a rollout that did not succeed, by its last attempt, if there was one.
    pub(crate) fn of(attempt: Option<&Attempt>) -> Self {
        let Some(attempt) = attempt else { return Self::Runner };
        match attempt.fault() {
            _ if attempt.host_error().is_some() => Self::Host,
            Some(Fault::Grader) => Self::Grader,
            Some(Fault::Runner) => Self::Runner,
            Some(Fault::World) => Self::World,
            _ if attempt.status == AttemptStatus::Unresponsive => Self::Runner,
            Some(Fault::Agent) | None => Self::Agent,
        }
    }

    /// Whether what the policy samples may bring it about.
    pub(crate) fn may_be_the_policys(self) -> bool {
        self == Self::Agent
    }

    /// Whether what it needed was away, whatever the policy sampled.
    pub(crate) fn is_outage(self) -> bool {
        matches!(self, Self::Host | Self::Runner)
    }

    fn metric(self) -> &'static str {
        match self {
            Self::Host => "rollout_errors/host",
            Self::Grader => "rollout_errors/grader",
            Self::Runner => "rollout_errors/runner",
            Self::World => "rollout_errors/world",
            Self::Agent => "rollout_errors/agent",
        }
    }
}

/// How many rollouts failed, by the metric of each cause and in all; nothing if none did.
pub(crate) fn failure_metrics(causes: impl IntoIterator<Item = FailureCause>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for cause in causes {
        *counts.entry(cause.metric()).or_default() += 1;
        *counts.entry("rollout_errors/total").or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cause(status: &str, metadata: Value) -> FailureCause {
        let attempt = json!({
            "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "start_time": 0.0, "end_time": 1.0,
            "status": status, "worker_id": null, "last_heartbeat_time": null, "metadata": metadata,
        });
        FailureCause::of(Some(&serde_json::from_value(attempt).unwrap()))
    }

    #[test]
    fn only_what_the_agent_did_may_be_the_policys_doing() {
        let is = |status, metadata, expected| assert_eq!(cause(status, metadata), expected);
        is("failed", json!({ "fault": "agent", "reason": "agent exited with status 1" }), FailureCause::Agent);
        is("timeout", json!(null), FailureCause::Agent);
        is("succeeded", json!(null), FailureCause::Agent);
        is("failed", json!({ "fault": "grader" }), FailureCause::Grader);
        is("failed", json!({ "fault": "runner" }), FailureCause::Runner);
        is("failed", json!({ "fault": "world" }), FailureCause::World);
        is("unresponsive", json!(null), FailureCause::Runner);
        // The agent crashed because nobody answered it.
        is("failed", json!({ "fault": "agent", "fulgurite_host_error": "backend_unavailable" }), FailureCause::Host);
        assert_eq!(FailureCause::of(None), FailureCause::Runner, "nobody took it");
    }
}
