use std::collections::HashSet;
use std::time::Duration;

use fulgurite_adapters::merge_generations;
use fulgurite_backends::derive_seed;
use fulgurite_types::{
    Attempt, Generation, NewRollout, RecordedReward, Reward, Rollout, RolloutConfig, RolloutMode, RolloutRecord,
    RolloutStatus, UntrainedCause, Verdict,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::accounting::untrained_cause;
use crate::failures::{Failures, check_calls};
use crate::reward_check::{self, RewardBounds};
use crate::{Record, RecordError, Reporter, TrainError, TrainEvent};

/// How often progress is told while nothing else happens.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// What rollouts are run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To learn from.
    Train,
    /// To measure progress.
    HeldOut,
    /// To score the end.
    Final,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Train => "train",
            Phase::HeldOut => "held_out",
            Phase::Final => "final",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Phase::Train, Phase::HeldOut, Phase::Final].into_iter().find(|phase| phase.as_str() == name)
    }

    fn mode(self) -> RolloutMode {
        match self {
            Phase::Train => RolloutMode::Train,
            Phase::HeldOut => RolloutMode::Val,
            Phase::Final => RolloutMode::Test,
        }
    }
}

/// A set of rollouts to run: each task becomes a group of `group_size`.
pub(crate) struct Plan<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) run_seed: u64,
    pub(crate) phase: Phase,
    /// Updates made so far.
    pub(crate) step: u64,
    pub(crate) tasks: Vec<Value>,
    pub(crate) group_size: usize,
    pub(crate) config: &'a RolloutConfig,
    /// What agents are told of the policy.
    pub(crate) resources_id: String,
    pub(crate) policy: Policy,
    pub(crate) reward_bounds: RewardBounds,
}

/// What has to have sampled a generation that is trained.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    /// Fingerprint of the tokenizer.
    pub(crate) tokenizer: String,
    /// What agents call it.
    pub(crate) model: String,
    /// The weights that are trained.
    pub(crate) weights_version: u64,
    /// Updates that the weights which sampled may be behind them.
    pub(crate) max_staleness: u64,
}

/// A rollout that has ended, with all that was recorded of it.
pub(crate) struct Member {
    pub(crate) rollout: Rollout,
    /// In order; the last one counts.
    pub(crate) attempts: Vec<Attempt>,
    /// Of the last attempt, if the rollout is over and succeeded, or is a session; in the order in which they were given.
    pub(crate) rewards: Vec<RecordedReward>,
    /// What was earned in all: the reward of the whole, and those of single calls.
    pub(crate) total_reward: f64,
    /// Of all attempts.
    pub(crate) generations: Vec<Generation>,
    /// Whether each of them is trained, in the same order.
    pub(crate) verdicts: Vec<Verdict>,
    /// Why nothing may be learnt from what it was rewarded with; it counts as failed then.
    pub(crate) refused: Option<UntrainedCause>,
}

/// Whether a rollout is a client's session: it has no end of its own, and its reward says that it may be judged.
pub(crate) fn is_session(rollout: &Rollout) -> bool {
    let kind = rollout.metadata.as_ref().and_then(|metadata| metadata.get("kind"));
    kind.and_then(Value::as_str) == Some("session")
}

impl Member {
    /// Its generations, each with whether it is trained.
    pub(crate) fn judged(&self) -> impl Iterator<Item = (&Generation, Verdict)> {
        self.generations.iter().zip(self.verdicts.iter().copied())
    }

    /// Those that are trained.
    pub(crate) fn trained(&self) -> impl Iterator<Item = &Generation> {
        self.judged().filter(|(_, verdict)| verdict.is_trained()).map(|(generation, _)| generation)
    }

    /// Decides whether each of its generations is trained, as long as its group has something to teach.
    pub(crate) fn judge(&mut self, phase: Phase, policy: &Policy) {
        let causes = self.generations.iter().map(|generation| untrained_cause(generation, self, phase, policy));
        self.verdicts = causes.map(Verdict::of).collect();
    }

    /// Its group has nothing to teach: what would have been trained is not.
    pub(crate) fn learn_nothing(&mut self) {
        for verdict in self.verdicts.iter_mut().filter(|verdict| verdict.is_trained()) {
            *verdict = Verdict::Untrained(UntrainedCause::ConstantGroup);
        }
    }

    pub(crate) fn succeeded(&self) -> bool {
        let is_over = self.rollout.status == RolloutStatus::Succeeded || is_session(&self.rollout);
        is_over && !self.rewards.is_empty() && self.refused.is_none()
    }

    /// The reward of the rollout as a whole: the one given last, as for Agent-lightning's readers.
    pub(crate) fn reward(&self) -> Option<&Reward> {
        let whole = self.rewards.iter().rev().find(|reward| reward.generation_id.is_none());
        whole.map(|recorded| &recorded.reward)
    }

    pub(crate) fn is_latest(&self, attempt_id: &str) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.attempt_id == attempt_id)
    }
}

/// The rollouts of one plan, group by group.
pub(crate) struct Collected {
    pub(crate) phase: Phase,
    pub(crate) groups: Vec<Vec<Member>>,
}

/// Puts the rollouts of a plan on the queue, waits until each has ended, and reads what was recorded.
///
/// `runner` holds a message once nobody is left to run them. Not one success, and not one call of the model, are errors:
/// then the agent is at fault, and there is nothing to learn from it.
pub(crate) async fn collect(
    record: &dyn Record,
    plan: Plan<'_>,
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<Collected, TrainError> {
    let enqueued = record.enqueue_rollouts(new_rollouts(&plan)).await?;
    let ids: Vec<String> = enqueued.into_iter().map(|rollout| rollout.rollout_id).collect();
    wait(record, &plan, &ids, runner, reporter).await?;
    let mut members = Vec::with_capacity(ids.len());
    for (recorded, rollout_id) in record.rollout_records(&ids).await?.into_iter().zip(ids) {
        let recorded = recorded.ok_or(RecordError::Deleted { rollout_id })?;
        members.push(member_of(recorded, plan.reward_bounds, plan.phase, &plan.policy)?);
    }
    let (phase, step) = (plan.phase.as_str(), plan.step);
    if let Some(failures) = Failures::of(&members).filter(Failures::are_most) {
        reporter.report(TrainEvent::RolloutsFailed { phase, step, failures: failures.clone() });
        if failures.failed == failures.rollouts {
            return Err(TrainError::EveryRolloutFailed { phase: phase.to_owned(), step, failures });
        }
    }
    check_calls(&members, &plan.policy, phase, step)?;
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for (index, member) in members.into_iter().enumerate() {
        if index % plan.group_size == 0 {
            groups.push(Vec::with_capacity(plan.group_size));
        }
        if let Some(group) = groups.last_mut() {
            group.push(member);
        }
    }
    Ok(Collected { phase: plan.phase, groups })
}

fn new_rollouts(plan: &Plan<'_>) -> Vec<NewRollout> {
    let mut rollouts = Vec::with_capacity(plan.tasks.len() * plan.group_size);
    for (group, task) in plan.tasks.iter().enumerate() {
        for member in 0..plan.group_size {
            let place = [plan.phase.as_str(), &plan.step.to_string(), &group.to_string(), &member.to_string()];
            let metadata = json!({
                "run_id": plan.run_id,
                "phase": plan.phase.as_str(),
                "step": plan.step,
                "group": group,
                "member": member,
                "seed": derive_seed(plan.run_seed, &place),
            });
            rollouts.push(NewRollout {
                rollout_id: None,
                input: task.clone(),
                mode: Some(plan.phase.mode()),
                resources_id: Some(plan.resources_id.clone()),
                config: Some(plan.config.clone()),
                metadata: metadata.as_object().cloned(),
            });
        }
    }
    rollouts
}

/// Waits until all of them have ended.
async fn wait(
    record: &dyn Record,
    plan: &Plan<'_>,
    ids: &[String],
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let mut ended: HashSet<String> = HashSet::with_capacity(ids.len());
    loop {
        reporter.report(TrainEvent::Rollouts {
            phase: plan.phase.as_str(),
            step: plan.step,
            done: ended.len(),
            total: ids.len(),
        });
        let waiting: Vec<String> = ids.iter().filter(|id| !ended.contains(*id)).cloned().collect();
        if waiting.is_empty() {
            break;
        }
        let gone = async {
            match runner.wait_for(Option::is_some).await {
                Ok(message) => message.clone().unwrap_or_default(),
                // Whoever watched the runner is gone itself: then nobody knows better than the queue.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            finished = record.wait_for_rollouts(&waiting, PROGRESS_INTERVAL) => {
                ended.extend(finished?.into_iter().map(|rollout| rollout.rollout_id));
            }
            message = gone => return Err(TrainError::RunnerGone { message }),
        }
    }
    Ok(())
}

/// A rollout that has ended, with what of it is trained by `policy`.
pub(crate) fn member_of(
    recorded: RolloutRecord,
    reward_bounds: RewardBounds,
    phase: Phase,
    policy: &Policy,
) -> Result<Member, TrainError> {
    let RolloutRecord { rollout, attempts, mut rewards, generations } = recorded;
    if rollout.status != RolloutStatus::Succeeded && !is_session(&rollout) {
        rewards.clear();
    }
    let total_reward = merge_generations(&[], &rewards)?.total_reward();
    let refused = reward_check::refusal(&rewards, total_reward, reward_bounds);
    let mut member = Member { rollout, attempts, rewards, total_reward, generations, verdicts: Vec::new(), refused };
    member.judge(phase, policy);
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_by_place_and_repeat_with_the_run() {
        let config = RolloutConfig::default();
        let plan = |run_seed, step| Plan {
            run_id: "r",
            run_seed,
            phase: Phase::Train,
            step,
            tasks: vec![json!(1), json!(2)],
            group_size: 2,
            config: &config,
            resources_id: format!("r-weights-{step}"),
            policy: Policy { tokenizer: "t".into(), model: "m".into(), weights_version: step, max_staleness: 0 },
            reward_bounds: None,
        };
        let seeds = |plan: Plan<'_>| -> Vec<u64> {
            let rollouts = new_rollouts(&plan);
            rollouts.iter().map(|rollout| rollout.metadata.as_ref().unwrap()["seed"].as_u64().unwrap()).collect()
        };
        let mut all: Vec<u64> = [seeds(plan(1, 0)), seeds(plan(1, 1)), seeds(plan(2, 0))].concat();
        assert_eq!(seeds(plan(1, 0)), all[..4]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
    }
}
