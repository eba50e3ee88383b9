//! Runs groups of rollouts: on the queue, until each has ended, and read.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use fulgurite_backends::derive_seed;
use fulgurite_types::{Generation, NewRollout, Rollout, RolloutConfig, RolloutSampling, UntrainedCause};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::Failures;
use crate::options::{FailureOptions, RewardRules};
use crate::rollouts::{Collected, FailureCause, Member, Phase, Policy, judge, member_of};
use crate::{Record, RecordError, Reporter, TrainError, TrainEvent};

/// How often progress is told while nothing else happens.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// How a set of rollouts is run and read.
pub(crate) struct Plan<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) run_seed: u64,
    pub(crate) phase: Phase,
    /// The update that they are for follows so many others.
    pub(crate) step: u64,
    /// Rollouts of each task.
    pub(crate) group_size: usize,
    pub(crate) config: &'a RolloutConfig,
    /// What agents are told of the policy.
    pub(crate) resources_id: String,
    pub(crate) policy: Policy,
    pub(crate) reward_rules: RewardRules,
    /// What becomes of those that failed.
    pub(crate) failures: FailureOptions,
}

/// Tasks, each of which becomes a group.
pub(crate) struct GroupTasks {
    pub(crate) tasks: Vec<Value>,
    /// Groups that the same phase and step have had already.
    pub(crate) groups_before: usize,
}

/// Puts a group of rollouts for each task on the queue, and gives their ids.
pub(crate) async fn enqueue(
    record: &dyn Record,
    plan: &Plan<'_>,
    tasks: GroupTasks,
) -> Result<Vec<String>, TrainError> {
    let enqueued = record.enqueue_rollouts(new_rollouts(plan, &tasks)).await?;
    Ok(enqueued.into_iter().map(|rollout| rollout.rollout_id).collect())
}

/// Waits until each of these rollouts has ended, and reads what was recorded. `runner` holds a message once nobody is left to
/// run them.
pub(crate) async fn collect(
    record: &dyn Record,
    plan: &Plan<'_>,
    ids: Vec<String>,
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<Collected, TrainError> {
    let mut members = ended_members(record, plan, ids, runner, reporter).await?;
    let replaced = run_again(record, plan, &mut members, runner, reporter).await?;
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for (index, member) in members.into_iter().enumerate() {
        if index % plan.group_size == 0 {
            groups.push(Vec::with_capacity(plan.group_size));
        }
        if let Some(group) = groups.last_mut() {
            group.push(member);
        }
    }
    groups.iter_mut().for_each(|group| give_up_small(group, plan));
    Ok(Collected { replaced, ..Collected::of(plan.phase, groups) })
}

/// As [`collect`], of rollouts that are learnt from or scored as they are.
pub(crate) async fn gather(
    record: &dyn Record,
    plan: &Plan<'_>,
    ids: Vec<String>,
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<Collected, TrainError> {
    let collected = collect(record, plan, ids, runner, reporter).await?;
    check(&collected, plan, reporter)?;
    Ok(collected)
}

/// Not one success, and not one call of the model, are errors: then the agent is at fault, and there is nothing to learn from
/// it.
pub(crate) fn check(collected: &Collected, plan: &Plan<'_>, reporter: &mut dyn Reporter) -> Result<(), TrainError> {
    let members: Vec<&Member> = collected.groups.iter().flatten().collect();
    let (phase, step) = (plan.phase.as_str(), plan.step);
    if let Some(failures) = Failures::of(&members).filter(Failures::are_most) {
        reporter.report(TrainEvent::RolloutsFailed { phase, step, failures: failures.clone() });
        if failures.failed == failures.rollouts {
            return Err(TrainError::EveryRolloutFailed { phase: phase.to_owned(), step, failures: Box::new(failures) });
        }
    }
    check_calls(&members, &plan.policy, phase, step)
}

/// Runs members again that failed for what the policy cannot bring about, each in its place; gives those that were there.
async fn run_again(
    record: &dyn Record,
    plan: &Plan<'_>,
    members: &mut [Member],
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<Vec<Member>, TrainError> {
    let mut replaced = Vec::new();
    for rerun in 1..=plan.failures.reruns {
        let causes = members.iter().map(|member| member.failure.filter(|cause| !cause.may_be_the_policys()));
        let lost: Vec<(usize, FailureCause)> =
            causes.enumerate().filter_map(|(index, cause)| cause.map(|cause| (index, cause))).collect();
        if lost.is_empty() {
            break;
        }
        let again = |(index, cause): &(usize, FailureCause)| rerun_of(&members[*index].rollout, *cause, plan, rerun);
        let rollouts = lost.iter().map(again).collect();
        let enqueued = record.enqueue_rollouts(rollouts).await?;
        let ids = enqueued.into_iter().map(|rollout| rollout.rollout_id).collect();
        let again = ended_members(record, plan, ids, runner, reporter).await?;
        for ((index, _), member) in lost.into_iter().zip(again) {
            replaced.push(std::mem::replace(&mut members[index], member));
        }
    }
    Ok(replaced)
}

/// The same task in the same place of its group.
fn rerun_of(rollout: &Rollout, cause: FailureCause, plan: &Plan<'_>, rerun: u32) -> NewRollout {
    let mut metadata = rollout.metadata.clone().unwrap_or_default();
    let seed = metadata.get("seed").and_then(Value::as_u64).unwrap_or_default();
    metadata.insert("seed".to_owned(), rerun_seed(seed, cause, rerun).into());
    metadata.insert("rerun".to_owned(), rerun.into());
    metadata.insert("rerun_of".to_owned(), rollout.rollout_id.as_str().into());
    NewRollout {
        rollout_id: None,
        input: rollout.input.clone(),
        mode: Some(plan.phase.mode()),
        resources_id: rollout.resources_id.clone(),
        config: Some(plan.config.clone()),
        metadata: Some(metadata),
    }
}

/// The seed of a rollout that is run again. The first rerun after an outage keeps the seed, so that a run whose server was
/// away samples the same tokens as one whose server was not. Others get another one: what fails by chance may do so by its
/// seed.
fn rerun_seed(seed: u64, cause: FailureCause, rerun: u32) -> u64 {
    if rerun == 1 && cause.is_outage() { seed } else { derive_seed(seed, &["rerun", &rerun.to_string()]) }
}

/// Learns nothing of a group of which failures that are not the policy's have left too few.
fn give_up_small(group: &mut [Member], plan: &Plan<'_>) {
    let lost = group.iter().filter(|member| member.failure.is_some_and(|cause| !cause.may_be_the_policys())).count();
    let least = (plan.failures.least_members * group.len() as f64).ceil() as usize;
    if plan.phase != Phase::Train || lost == 0 || group.len() - lost >= least {
        return;
    }
    for member in group.iter_mut().filter(|member| member.succeeded()) {
        member.refused = Some(UntrainedCause::TooFewMembers);
        judge(member, plan.phase, &plan.policy);
    }
}

/// The rollouts, once each has ended, however it has.
pub(crate) async fn ended_members(
    record: &dyn Record,
    plan: &Plan<'_>,
    ids: Vec<String>,
    runner: &mut watch::Receiver<Option<String>>,
    reporter: &mut dyn Reporter,
) -> Result<Vec<Member>, TrainError> {
    wait(record, plan, &ids, runner, reporter).await?;
    let mut members = Vec::with_capacity(ids.len());
    for (recorded, rollout_id) in record.rollout_records(&ids).await?.into_iter().zip(ids) {
        let recorded = recorded.ok_or(RecordError::Deleted { rollout_id })?;
        members.push(member_of(recorded, plan.reward_rules, plan.phase, &plan.policy)?);
    }
    Ok(members)
}

/// A group of rollouts for each task, which nobody has put on the queue yet.
pub(crate) fn new_rollouts(plan: &Plan<'_>, tasks: &GroupTasks) -> Vec<NewRollout> {
    let mut rollouts = Vec::with_capacity(tasks.tasks.len() * plan.group_size);
    for (group, task) in (tasks.groups_before..).zip(&tasks.tasks) {
        let group_place = [plan.phase.as_str(), &plan.step.to_string(), &group.to_string()];
        let world_seed = derive_seed(plan.run_seed, &group_place);
        for member in 0..plan.group_size {
            let [phase, step, group_text] = group_place;
            let place = [phase, step, group_text, &member.to_string()];
            let mut metadata = json!({
                "run_id": plan.run_id,
                "phase": plan.phase.as_str(),
                "step": plan.step,
                "group": group,
                "member": member,
                "seed": derive_seed(plan.run_seed, &place),
                Rollout::WORLD_SEED: world_seed,
            });
            if let (Some(sampling), Some(fields)) = (sampling_of(&plan.policy), metadata.as_object_mut()) {
                fields.insert(Rollout::SAMPLING.to_owned(), json!(sampling));
            }
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

/// What calls of the policy's model are sampled with that leave it out, where that is not usual.
fn sampling_of(policy: &Policy) -> Option<RolloutSampling> {
    let Policy { model, temperature, .. } = policy;
    (*temperature != 1.0).then(|| RolloutSampling { model: model.clone(), temperature: *temperature })
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
        let runner_end = async {
            let message = runner.wait_for(Option::is_some).await.map(|message| message.clone().unwrap_or_default());
            match message {
                Ok(message) => message,
                // Whoever watched the runner is gone itself: then nobody knows better than the queue.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            finished = record.wait_for_rollouts(&waiting, PROGRESS_INTERVAL) => {
                ended.extend(finished?.into_iter().map(|rollout| rollout.rollout_id));
            }
            message = runner_end => return Err(TrainError::RunnerEnded { message }),
        }
    }
    Ok(())
}

/// Refuses rollouts none of which called the model that is trained: whatever they earned, it was not the model's doing.
fn check_calls(members: &[&Member], policy: &Policy, phase: &'static str, step: u64) -> Result<(), TrainError> {
    let calls = || members.iter().flat_map(|member| &member.generations);
    // What was passed on to another host has no tokens here.
    let counts = |call: &Generation| !call.sampled_tokens.is_empty() || policy.tokenizer.is_empty();
    if calls().any(|call| call.model == policy.model && counts(call)) {
        return Ok(());
    }
    let others: BTreeSet<&str> =
        calls().map(|call| call.model.as_str()).filter(|model| *model != policy.model).collect();
    let others = match others.len() {
        0 => "the server has heard of no model call of theirs".to_owned(),
        _ => format!("their calls were for {}", others.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let model = policy.model.clone();
    Err(TrainError::NoModelCalls { rollouts: members.len(), phase: phase.to_owned(), step, model, others })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::VersionDistances;

    #[test]
    fn an_outage_changes_no_seed_until_it_comes_again() {
        let again = |cause, rerun| rerun_seed(7, cause, rerun);
        for cause in [FailureCause::Host, FailureCause::Runner] {
            assert_eq!(again(cause, 1), 7);
            assert_ne!(again(cause, 2), 7);
        }
        for cause in [FailureCause::Grader, FailureCause::World] {
            assert_ne!(again(cause, 1), 7);
            assert_ne!(again(cause, 1), again(cause, 2));
        }
    }

    #[test]
    fn seeds_differ_by_place_and_repeat_with_the_run() {
        let config = RolloutConfig::default();
        let seeds = |run_seed, step, groups_before| -> Vec<u64> {
            let plan = Plan {
                run_id: "r",
                run_seed,
                phase: Phase::Train,
                step,
                group_size: 2,
                config: &config,
                resources_id: format!("r-weights-{step}"),
                policy: Policy {
                    tokenizer: "t".into(),
                    model: "m".into(),
                    temperature: 1.0,
                    distances: VersionDistances::default(),
                    max_staleness: 0,
                },
                reward_rules: RewardRules::default(),
                failures: FailureOptions::default(),
            };
            let rollouts = new_rollouts(&plan, &GroupTasks { tasks: vec![json!(1), json!(2)], groups_before });
            rollouts.iter().map(|rollout| rollout.metadata.as_ref().unwrap()["seed"].as_u64().unwrap()).collect()
        };
        let mut all: Vec<u64> = [seeds(1, 0, 0), seeds(1, 1, 0), seeds(2, 0, 0), seeds(1, 0, 2)].concat();
        assert_eq!(seeds(1, 0, 0), all[..4]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 16);
    }
}
