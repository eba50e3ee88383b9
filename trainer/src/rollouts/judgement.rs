//! Whether a generation is trained, decided once.

use fulgurite_adapters::{exclusion_at, side_requests};
use fulgurite_types::{AttemptStatus, Generation, RolloutStatus, UntrainedCause, Verdict};

use super::member::{Member, Phase, Policy};

/// Decides whether each of a member's generations is trained, as long as its group has something to teach.
pub(crate) fn judge(member: &mut Member, phase: Phase, policy: &Policy) {
    let side = side_requests(&member.generations);
    let causes = member.generations.iter().map(|generation| {
        let stands_apart = || side.contains(generation.generation_id.as_str()).then_some(UntrainedCause::Auxiliary);
        untrained_cause(generation, member, phase, policy).or_else(stands_apart)
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
    exclusion_at(generation, policy.temperature).or_else(|| {
        if generation.tokenizer != policy.tokenizer {
            Some(UntrainedCause::UnknownTokenizer)
        } else if generation.model != policy.model {
            Some(UntrainedCause::OtherModel)
        } else {
            let faults = generation.weights_versions.iter().filter_map(|weights| policy.fault_of(weights.version));
            // Weights that nobody can name say more than those that are too old.
            faults.min_by_key(|fault| *fault != UntrainedCause::UnknownWeights)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::member::LeftToTrain;
    use super::*;
    use crate::weights::VersionDistances;

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
        untrained_cause(&generation, &member, Phase::Train, &policy(&[(0, 0)], 0))
    }

    fn policy(distances: &[(u64, u64)], max_staleness: u64) -> Policy {
        let distances = VersionDistances::of(distances.iter().copied());
        Policy { tokenizer: "t".to_owned(), model: "m".to_owned(), temperature: 1.0, distances, max_staleness }
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
        judge(&mut member, Phase::Train, &policy(&[(0, 0)], 0));
        assert_eq!(member.verdicts, [Verdict::Trained, Verdict::Untrained(UntrainedCause::Auxiliary)]);
    }

    #[test]
    fn weights_are_stale_beyond_the_limit_and_unknown_where_the_run_cannot_name_them() {
        let (stale, unknown) = (Some(UntrainedCause::StaleWeights), Some(UntrainedCause::UnknownWeights));
        // Version 9 was made after a return to the weights of version 4.
        let distances = [(3, 2), (4, 1), (5, 2), (9, 0)];
        let faults = |max_staleness, versions: &[u64]| -> Vec<Option<UntrainedCause>> {
            versions.iter().map(|version| policy(&distances, max_staleness).fault_of(*version)).collect()
        };
        assert_eq!(faults(0, &[9, 5, 4]), [None, stale, stale]);
        assert_eq!(faults(1, &[9, 5, 4, 3]), [None, stale, None, stale]);
        assert_eq!(faults(9, &[3, 5, 6, 10]), [None, None, unknown, unknown]);
    }

    #[test]
    fn what_another_run_has_trained_is_not_trained_again() {
        let attempt = json!({
            "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "start_time": 0.0, "end_time": null,
            "status": "succeeded", "worker_id": null, "last_heartbeat_time": null, "metadata": null,
        });
        let rollout = json!({
            "rollout_id": "r", "input": null, "start_time": 0.0, "end_time": null, "mode": "train",
            "resources_id": null, "status": "succeeded", "config": {}, "metadata": null,
        });
        let call = |id: &str| {
            let generation = json!({
                "generation_id": id, "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
                "sequence_id": 1, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
                "model": "m", "prompt_tokens": [1], "sampled_tokens": [2], "logprobs": [-0.5], "stop_reason": "stop",
                "weights_versions": [{ "version": 0, "first_token": 0 }],
                "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1, "renderer": "chatml",
                "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
            });
            serde_json::from_value(generation).unwrap()
        };
        let mut member = Member {
            attempts: vec![serde_json::from_value(attempt).unwrap()],
            generations: vec![call("one"), call("two"), call("three")],
            ..Member::of_rollout(rollout)
        };
        let (trained, before) = (Verdict::Trained, Verdict::Untrained(UntrainedCause::TrainedBefore));
        let defective = Verdict::Untrained(UntrainedCause::Defective);
        member.verdicts = vec![trained, trained, defective];
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        // A cause that holds for every run stays.
        assert_eq!(member.pass_over_trained(&ids(&["one", "three", "other"])), LeftToTrain::Something);
        assert_eq!(member.verdicts, [before, trained, defective]);
        assert_eq!(member.pass_over_trained(&ids(&["two"])), LeftToTrain::Nothing);
        assert_eq!(member.verdicts, [before, before, defective]);
        // Nothing of it could ever be trained: nobody was before.
        member.verdicts = vec![defective; 3];
        assert_eq!(member.pass_over_trained(&ids(&["one", "two"])), LeftToTrain::Something);
    }

    #[test]
    fn an_attempt_that_has_not_ended_well_is_named_by_how_it_stands() {
        assert_eq!(cause("running", "running", &["a"]), Some(UntrainedCause::UnfinishedAttempt));
        assert_eq!(cause("failed", "failed", &["a"]), Some(UntrainedCause::FailedAttempt));
        assert_eq!(cause("succeeded", "unresponsive", &["a", "b"]), Some(UntrainedCause::SupersededAttempt));
        assert_eq!(cause("succeeded", "succeeded", &["a"]), Some(UntrainedCause::FailedAttempt), "no reward");
    }
}
