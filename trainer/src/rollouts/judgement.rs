//! Whether a generation is trained, decided once.

use fulgurite_adapters::{exclusion, side_requests};
use fulgurite_types::{AttemptStatus, Generation, RolloutStatus, UntrainedCause, Verdict};

use super::member::{Member, Phase, Policy};

/// Decides whether each of a member's generations is trained, as long as its group has something to teach.
pub(crate) fn judge(member: &mut Member, phase: Phase, policy: &Policy) {
    let beside = side_requests(&member.generations);
    let causes = member.generations.iter().map(|generation| {
        let stands_beside = || beside.contains(generation.generation_id.as_str()).then_some(UntrainedCause::Auxiliary);
        untrained_cause(generation, member, phase, policy).or_else(stands_beside)
    });
    let verdicts = causes.map(Verdict::of).collect();
    member.verdicts = verdicts;
}

/// Why a generation is not trained, whatever its group has to teach; `None` if it is. What belongs to the rollout comes
/// before what belongs to the generation, so that each token has one cause.
fn untrained_cause(generation: &Generation, member: &Member, phase: Phase, policy: &Policy) -> Option<UntrainedCause> {
    if phase != Phase::Train {
        return Some(UntrainedCause::Evaluation);
    }
    let attempt = member.attempts.iter().find(|attempt| attempt.attempt_id == generation.attempt_id);
    let counts = member.is_penalized && member.is_latest(&generation.attempt_id);
    if !counts && attempt.is_some_and(|attempt| attempt.status == AttemptStatus::Failed) {
        return Some(UntrainedCause::FailedAttempt);
    }
    if !member.is_latest(&generation.attempt_id) {
        return Some(UntrainedCause::SupersededAttempt);
    }
    if member.refused.is_some() {
        return member.refused;
    }
    match member.rollout.status {
        _ if member.succeeded() => {}
        RolloutStatus::Succeeded | RolloutStatus::Failed | RolloutStatus::Cancelled => {
            return Some(UntrainedCause::FailedAttempt);
        }
        RolloutStatus::Queuing | RolloutStatus::Requeuing | RolloutStatus::Preparing | RolloutStatus::Running => {
            return Some(UntrainedCause::UnfinishedAttempt);
        }
    }
    exclusion(generation).or_else(|| {
        if generation.tokenizer != policy.tokenizer {
            Some(UntrainedCause::UnknownTokenizer)
        } else if generation.model != policy.model {
            Some(UntrainedCause::OtherModel)
        } else if generation.weights_versions.iter().any(|weights| policy.is_stale(weights.version)) {
            Some(UntrainedCause::StaleWeights)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cause(rollout_status: &str, attempt_status: &str, attempts: &[&str]) -> Option<UntrainedCause> {
        let rollout = json!({
            "rollout_id": "r", "input": null, "start_time": 0.0, "end_time": null, "mode": "train",
            "resources_id": null, "status": rollout_status, "config": {}, "metadata": null,
        });
        let attempt = |(index, id): (usize, &&str)| {
            json!({
                "rollout_id": "r", "attempt_id": id, "sequence_id": index + 1, "start_time": 0.0, "end_time": null,
                "status": attempt_status, "worker_id": null, "last_heartbeat_time": null, "metadata": null,
            })
        };
        let generation = json!({
            "generation_id": "g", "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
            "sequence_id": 1, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
            "model": "m", "prompt_tokens": [1], "sampled_tokens": [2], "logprobs": [-0.5], "stop_reason": "stop",
            "weights_versions": [{ "version": 0, "first_token": 0 }],
            "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1, "renderer": "chatml",
            "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
        });
        let member = Member {
            attempts: attempts.iter().enumerate().map(|one| serde_json::from_value(attempt(one)).unwrap()).collect(),
            ..Member::of_rollout(rollout)
        };
        let generation = serde_json::from_value(generation).unwrap();
        untrained_cause(&generation, &member, Phase::Train, &policy(0, 0))
    }

    fn policy(weights_version: u64, max_staleness: u64) -> Policy {
        Policy { tokenizer: "t".to_owned(), model: "m".to_owned(), weights_version, max_staleness }
    }

    #[test]
    fn a_side_request_is_told_by_its_shape() {
        let rollout = json!({
            "rollout_id": "r", "input": null, "start_time": 0.0, "end_time": null, "mode": "train",
            "resources_id": null, "status": "succeeded", "config": {}, "metadata": { "kind": "session" },
        });
        let attempt = json!({
            "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "start_time": 0.0, "end_time": null,
            "status": "succeeded", "worker_id": null, "last_heartbeat_time": null, "metadata": null,
        });
        let call = |id: &str, reason: &str, sequence_id: u64| {
            let generation = json!({
                "generation_id": id, "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
                "sequence_id": sequence_id, "parent_id": null, "branch_reason": reason, "start_time": 0.0,
                "end_time": 1.0, "model": "m", "prompt_tokens": [1], "sampled_tokens": [2], "logprobs": [-0.5],
                "stop_reason": "stop", "weights_versions": [{ "version": 0, "first_token": 0 }],
                "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1, "renderer": "chatml",
                "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
            });
            serde_json::from_value(generation).unwrap()
        };
        let mut member = Member {
            attempts: vec![serde_json::from_value(attempt).unwrap()],
            generations: vec![call("task", "first_turn", 1), call("commit", "beside_tools", 2)],
            rewards: vec![fulgurite_types::RecordedReward {
                attempt_id: "a".to_owned(),
                span_id: "s".to_owned(),
                sequence_id: 3,
                time: None,
                generation_id: None,
                reward: fulgurite_types::Reward::new(1.0),
                giver: None,
            }],
            ..Member::of_rollout(rollout)
        };
        judge(&mut member, Phase::Train, &policy(0, 0));
        assert_eq!(member.verdicts, [Verdict::Trained, Verdict::Untrained(UntrainedCause::Auxiliary)]);
    }

    #[test]
    fn weights_are_stale_beyond_the_limit_and_before_their_time() {
        assert!(!policy(5, 0).is_stale(5) && policy(5, 0).is_stale(4));
        assert!(!policy(5, 2).is_stale(3) && policy(5, 2).is_stale(2));
        assert!(policy(5, 9).is_stale(6), "of a run that went on from another checkpoint");
        assert!(!policy(5, 9).is_stale(0));
    }

    #[test]
    fn an_attempt_that_has_not_ended_well_is_named_by_how_it_stands() {
        assert_eq!(cause("running", "running", &["a"]), Some(UntrainedCause::UnfinishedAttempt));
        assert_eq!(cause("failed", "failed", &["a"]), Some(UntrainedCause::FailedAttempt));
        assert_eq!(cause("succeeded", "unresponsive", &["a", "b"]), Some(UntrainedCause::SupersededAttempt));
        assert_eq!(cause("succeeded", "succeeded", &["a"]), Some(UntrainedCause::FailedAttempt), "no reward");
    }
}
