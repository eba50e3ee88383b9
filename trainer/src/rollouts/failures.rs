//! Why rollouts failed, for people, once for a whole step.

use std::collections::HashMap;

use fulgurite_types::AttemptStatus;
use serde_json::Value;

use super::failure_cause::FailureCause;
use super::member::Member;
use crate::error::Failures;

/// Lines of an agent's standard error that are shown.
const TAIL_LINES: usize = 12;
/// Characters of it.
const TAIL_CHARACTERS: usize = 1500;

impl Failures {
    /// What failed among the rollouts of a step, if anything did.
    pub(crate) fn of(members: &[&Member]) -> Option<Self> {
        let failed: Vec<(&Member, Why<'_>)> = members
            .iter()
            .filter(|member| member.failure.is_some() || !member.succeeded())
            .map(|member| (*member, Why::of(member)))
            .collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, why) in &failed {
            *counts.entry(&why.cause).or_default() += 1;
        }
        // Ties go to the cause that sorts first, so that the message does not change from run to run.
        let (cause, count) = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        let alike = || failed.iter().filter(|(_, why)| why.cause == cause);
        let tail = alike().find_map(|(_, why)| why.tail).map(last_lines);
        let is_agents = alike().all(|(member, _)| {
            member.failure.unwrap_or_else(|| FailureCause::of(member.attempts.last())) == FailureCause::Agent
        });
        Some(Self {
            failed: failed.len(),
            rollouts: members.len(),
            reason: alike().next().map(|(_, why)| why.reason.clone()).unwrap_or_default(),
            ran_out_of_time: alike().all(|(member, _)| {
                member.attempts.last().is_some_and(|attempt| attempt.status == AttemptStatus::Timeout)
            }),
            calls: is_agents.then(|| alike().map(|(member, _)| member.latest_calls()).sum()),
            cause: cause.to_owned(),
            count,
            stderr_tail: tail,
        })
    }
}

impl Member {
    /// Why it failed, in words.
    pub(crate) fn failure_reason(&self) -> String {
        Why::of(self).reason
    }

    /// What that has in common with others that failed alike.
    pub(crate) fn failure_cause(&self) -> String {
        Why::of(self).cause
    }

    /// Calls of its last attempt.
    fn latest_calls(&self) -> usize {
        self.generations.iter().filter(|call| self.is_latest(&call.attempt_id)).count()
    }
}

/// Why a rollout failed.
struct Why<'m> {
    cause: String,
    reason: String,
    /// What its agent wrote to its standard error.
    tail: Option<&'m str>,
}

impl<'m> Why<'m> {
    /// As its last attempt tells it.
    fn of(member: &'m Member) -> Self {
        let plain = |reason: String| Self { cause: reason.clone(), reason, tail: None };
        if let Some(cause) = member.refused {
            return plain(format!("its reward was refused: {}", cause.as_str()));
        }
        let Some(attempt) = member.attempts.last() else { return plain("no attempt was made".to_owned()) };
        let tail = attempt.metadata.as_ref().and_then(|metadata| metadata.get("stderr_tail")).and_then(Value::as_str);
        let why = match (attempt.reason(), attempt.failure_cause()) {
            (Some(reason), Some(cause)) => Self { cause, reason: reason.to_owned(), tail: None },
            _ if member.rewards.is_empty() && attempt.status.as_str() == "succeeded" => {
                plain("the attempt succeeded, but nobody gave a reward".to_owned())
            }
            _ => plain(format!("the attempt ended as {}", attempt.status.as_str())),
        };
        Self { tail: tail.map(str::trim).filter(|tail| !tail.is_empty()), ..why }
    }
}

/// The end of what an agent wrote, without what would move a terminal's cursor.
fn last_lines(text: &str) -> String {
    let plain: String = text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect();
    let lines: Vec<&str> = plain.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    let characters = tail.chars().count();
    tail.chars().skip(characters.saturating_sub(TAIL_CHARACTERS)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_terminal_is_shown_the_last_lines_and_no_control_characters() {
        let text: String = (0..30).map(|n| format!("\u{1b}[31mline {n}\u{7}\r\n")).collect();
        let tail = last_lines(&text);
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.starts_with("[31mline 18\n") && tail.ends_with("[31mline 29"), "{tail}");
        assert_eq!(last_lines(&"x".repeat(5000)).len(), TAIL_CHARACTERS);
    }

    fn member(input: &str, metadata: Value) -> Member {
        let rollout = json!({
            "rollout_id": input, "input": input, "start_time": 0.0, "end_time": 1.0, "mode": "train", "resources_id": null,
            "status": "failed", "config": {}, "metadata": {},
        });
        let attempt = json!({
            "rollout_id": input, "attempt_id": "at", "sequence_id": 1, "start_time": 0.0, "end_time": 1.0, "status": "failed",
            "worker_id": null, "last_heartbeat_time": null, "metadata": metadata,
        });
        Member { attempts: vec![serde_json::from_value(attempt).unwrap()], ..Member::of_rollout(rollout) }
    }

    #[test]
    fn rollouts_that_fail_alike_are_counted_together_whatever_their_reasons_quote() {
        let reasons = ["boom 1000", "boom 1001", "boom 7"].map(|quoted| format!("agent failed: {quoted}"));
        let members = reasons.map(|reason| member(&reason, json!({ "reason": reason, "fault": "agent" })));
        let failures = Failures::of(&members.iter().collect::<Vec<_>>()).unwrap().to_string();
        let expected = "agent failed (3 of the 3 that failed); for example: agent failed: boom 1000\nhelp: the model was not called";
        assert!(failures.starts_with(expected) && failures.contains("OPENAI_BASE_URL"), "{failures}");
        let broken = ["/w/1", "/w/2"].map(|path| format!("the attempt's world cannot be made or read at {path}: full"));
        let cause = "the attempt's world cannot be made or read";
        let members =
            broken.map(|reason| member(&reason, json!({ "reason": reason, "cause": cause, "fault": "world" })));
        let failures = Failures::of(&members.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((failures.cause.as_str(), failures.count, failures.calls), (cause, 2, None));
    }
}
