//! From a rollout's record to a member of its group.

use fulgurite_adapters::{EpisodeStop, exclusion, merge_generations};
use fulgurite_types::{Attempt, Generation, RolloutRecord, RolloutStatus, StopReason};

use super::judgement::judge;
use super::member::{Member, Phase, Policy, is_session};
use super::reward_check::{self, RewardBounds};
use crate::TrainError;

/// What a rollout's rewards are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RewardRules {
    /// The least and the greatest that may be earned.
    pub(crate) bounds: RewardBounds,
    /// Whether a rollout that a limit cut off earns 0 at most.
    pub(crate) zero_on_limit: bool,
}

/// A rollout that has ended, with what of it is trained by `policy`.
pub(crate) fn member_of(
    recorded: RolloutRecord,
    rules: RewardRules,
    phase: Phase,
    policy: &Policy,
) -> Result<Member, TrainError> {
    let RolloutRecord { rollout, attempts, mut rewards, generations } = recorded;
    if rollout.status != RolloutStatus::Succeeded && !is_session(&rollout) {
        rewards.clear();
    }
    let earned = merge_generations(&[], &rewards)?.total_reward();
    let refused = reward_check::refusal(&rewards, earned, rules.bounds);
    let stop = stop_of(attempts.last(), &generations, &policy.model);
    let total_reward = if rules.zero_on_limit && stop.is_limit() { earned.min(0.0) } else { earned };
    let verdicts = Vec::new();
    let mut member = Member { rollout, attempts, rewards, total_reward, stop, generations, verdicts, refused };
    judge(&mut member, phase, policy);
    Ok(member)
}

/// Whether the answer to the last call of the model was cut off; calls beside the task say nothing of it.
fn stop_of(attempt: Option<&Attempt>, generations: &[Generation], model: &str) -> EpisodeStop {
    let counts = |generation: &&Generation| {
        let is_of = attempt.is_some_and(|attempt| attempt.attempt_id == generation.attempt_id);
        is_of && generation.model == model && exclusion(generation).is_none()
    };
    match generations.iter().filter(counts).max_by_key(|generation| generation.sequence_id) {
        Some(last) if last.stop_reason == StopReason::Length => EpisodeStop::MaxTokens,
        _ => EpisodeStop::Completed,
    }
}
