use std::collections::{HashMap, HashSet};

use fulgurite_adapters::exclusion;
use fulgurite_types::{AttemptStatus, Generation, GenerationUse, Rollout, RolloutStatus, TokenUse, UntrainedCause};
use serde_json::Value;

use crate::collection::{Collected, Member, Phase, Policy};
use crate::{Record, TrainError};

/// Why a generation is not trained, whatever its group has to teach; `None` if it is. What belongs to the rollout comes
/// before what belongs to the generation, so that each token has one cause.
pub(crate) fn untrained_cause(
    generation: &Generation,
    member: &Member,
    phase: Phase,
    policy: &Policy,
) -> Option<UntrainedCause> {
    if phase != Phase::Train {
        return Some(UntrainedCause::Evaluation);
    }
    let attempt = member.attempts.iter().find(|attempt| attempt.attempt_id == generation.attempt_id);
    if attempt.is_some_and(|attempt| attempt.status == AttemptStatus::Failed) {
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

impl Policy {
    /// Whether weights of a version are too old to be trained on; those of a version that is not there yet are another
    /// run's.
    fn is_stale(&self, version: u64) -> bool {
        self.weights_version.checked_sub(version).is_none_or(|behind| behind > self.max_staleness)
    }
}

/// What became of every token that a set of rollouts sampled.
pub(crate) fn uses(collected: &Collected) -> Vec<GenerationUse> {
    let judged = collected.groups.iter().flatten().flat_map(Member::judged);
    judged
        .map(|(generation, verdict)| GenerationUse {
            generation_id: generation.generation_id.clone(),
            cause: verdict.into(),
            tokens: generation.sampled_tokens.len() as u64,
        })
        .collect()
}

/// What no step has accounted for at the end of a run: calls that arrived after their step was over, and calls that
/// belong to no rollout of the run. `accounted` is what is about to be recorded.
pub(crate) async fn leftovers(
    record: &dyn Record,
    run_id: &str,
    accounted: &[GenerationUse],
) -> Result<Vec<GenerationUse>, TrainError> {
    // Its step is over, so a late call was made by an attempt that nobody waits for any more.
    let mut uses = account_late(record, run_id, UntrainedCause::SupersededAttempt).await?;
    let accounted: HashSet<&str> = accounted.iter().map(|one| one.generation_id.as_str()).collect();
    uses.retain(|one| !accounted.contains(one.generation_id.as_str()));
    Ok(uses)
}

/// What was sampled for a step that a crash cut short.
pub(crate) async fn undone(record: &dyn Record, run_id: &str) -> Result<Vec<GenerationUse>, TrainError> {
    account_late(record, run_id, UntrainedCause::AfterLastCheckpoint).await
}

/// Accounts for everything that is not accounted for yet; `cause` is that of the run's own training rollouts.
async fn account_late(
    record: &dyn Record,
    run_id: &str,
    cause: UntrainedCause,
) -> Result<Vec<GenerationUse>, TrainError> {
    let mut phases: HashMap<String, Option<Phase>> = HashMap::new();
    let mut uses = Vec::new();
    for late in record.unaccounted_generations(run_id).await? {
        if !phases.contains_key(&late.rollout_id) {
            let rollout = record.rollout(&late.rollout_id).await?;
            phases.insert(late.rollout_id.clone(), rollout.and_then(|rollout| phase_in_run(&rollout, run_id)));
        }
        let cause = match phases.get(&late.rollout_id).copied().flatten() {
            None => UntrainedCause::Unattributed,
            Some(Phase::Train) => cause,
            Some(Phase::HeldOut | Phase::Final) => UntrainedCause::Evaluation,
        };
        let cause = TokenUse::Untrained(cause);
        uses.push(GenerationUse { generation_id: late.generation_id, cause, tokens: late.sampled_tokens });
    }
    Ok(uses)
}

/// What the run made a rollout for; `None` if it is not the run's.
fn phase_in_run(rollout: &Rollout, run_id: &str) -> Option<Phase> {
    let metadata = rollout.metadata.as_ref()?;
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    (text("run_id") == Some(run_id)).then(|| Phase::from_name(text("phase")?)).flatten()
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
            rollout: serde_json::from_value(rollout).unwrap(),
            attempts: attempts.iter().enumerate().map(|one| serde_json::from_value(attempt(one)).unwrap()).collect(),
            rewards: Vec::new(),
            total_reward: 0.0,
            generations: Vec::new(),
            verdicts: Vec::new(),
            refused: None,
        };
        let generation = serde_json::from_value(generation).unwrap();
        untrained_cause(&generation, &member, Phase::Train, &policy(0, 0))
    }

    fn policy(weights_version: u64, max_staleness: u64) -> Policy {
        Policy { tokenizer: "t".to_owned(), model: "m".to_owned(), weights_version, max_staleness }
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
