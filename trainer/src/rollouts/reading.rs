//! From a rollout's record to a member of its group.

use fulgurite_adapters::{exclusion_at, merge_generations, side_requests};
use fulgurite_types::{
    Attempt, EpisodeStop, Generation, RecordedReward, Reward, RolloutRecord, RolloutStatus, StopReason,
};

use super::failure_cause::FailureCause;
use super::judgement::judge;
use super::member::{Member, Phase, Policy, is_session};
use super::reward_check;
use crate::TrainError;
use crate::options::RewardRules;

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
    let mut member = Member {
        rollout,
        attempts,
        rewards,
        total_reward: 0.0,
        stop: EpisodeStop::Completed,
        generations,
        verdicts: Vec::new(),
        refused: None,
        failure: None,
        is_penalized: false,
    };
    member.failure = (!member.succeeded()).then(|| FailureCause::of(member.attempts.last()));
    if let (Some(FailureCause::Agent), Some(penalty)) = (member.failure, rules.agent_failed) {
        member.rewards = member.attempts.last().map(|attempt| penalty_of(attempt, penalty)).into_iter().collect();
        member.is_penalized = true;
    }
    let earned = merge_generations(&[], &member.rewards)?.total_reward();
    member.refused = reward_check::refusal(&member.rewards, earned, rules.bounds);
    member.stop = stop_of(member.attempts.last(), &member.generations, policy);
    member.total_reward = if rules.zero_on_limit && member.stop.is_limit() { earned.min(0.0) } else { earned };
    judge(&mut member, phase, policy);
    Ok(member)
}

/// What the run gives a rollout that its agent failed.
fn penalty_of(attempt: &Attempt, penalty: f64) -> RecordedReward {
    RecordedReward {
        attempt_id: attempt.attempt_id.clone(),
        span_id: String::new(),
        sequence_id: u64::MAX,
        time: attempt.end_time,
        generation_id: None,
        reward: Reward::new(penalty),
        giver: None,
    }
}

/// The limit that refused the attempt a call; else whether the answer to the last call of the model was cut off. Calls
/// beside the task say nothing of it.
fn stop_of(attempt: Option<&Attempt>, generations: &[Generation], policy: &Policy) -> EpisodeStop {
    let side = side_requests(generations);
    let counts = |generation: &&Generation| {
        let is_of = attempt.is_some_and(|attempt| attempt.attempt_id == generation.attempt_id);
        let is_side_request = side.contains(generation.generation_id.as_str());
        let is_exact = exclusion_at(generation, policy.temperature).is_none();
        is_of && !is_side_request && generation.model == policy.model && is_exact
    };
    if let Some(limit) = attempt.and_then(Attempt::limit) {
        return limit;
    }
    match generations.iter().filter(counts).max_by_key(|generation| generation.sequence_id) {
        Some(last) if last.stop_reason == StopReason::Length => EpisodeStop::MaxTokens,
        _ => EpisodeStop::Completed,
    }
}
