//! Rollouts that the run itself puts on the queue: groups of the tasks that come next, now or some steps ahead.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{GenerationUse, RolloutConfig, UntrainedCause};
use serde_json::Value;
use tokio::sync::watch;

use super::collection::{GroupTasks, Plan, check, collect, ended_members, enqueue};
use super::solve_rates::SolveRates;
use super::source::{DataPosition, Source};
use super::task_order::tasks_at;
use crate::options::{DynamicSampling, FailureOptions, RewardRules};
use crate::publishing::resources_id;
use crate::rollouts::{Collected, Judged, Member, Pairwise, Phase, Policy, can_teach, solve_rate};
use crate::weights::RunWeights;
use crate::{Record, Reporter, RunIdentity, TrainError, TrainEvent};

/// Has groups of rollouts run for a run.
#[derive(Clone)]
pub(crate) struct RolloutGroups {
    pub(crate) record: Arc<dyn Record>,
    pub(crate) identity: RunIdentity,
    /// Timeouts and retries of each rollout.
    pub(crate) config: RolloutConfig,
    /// What has to have sampled what is trained.
    pub(crate) policy: Policy,
    /// The weights that the run can name.
    pub(crate) weights: RunWeights,
    pub(crate) reward_rules: RewardRules,
    pub(crate) failures: FailureOptions,
    /// A message here says that nobody is left to run rollouts.
    pub(crate) runner: watch::Receiver<Option<String>>,
    /// Compares what is learnt from, in place of what it was rewarded with.
    pub(crate) pairwise: Option<Pairwise>,
}

/// What a set of groups is run for.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    pub(crate) phase: Phase,
    /// The update that they are for, or before which they are scored, follows so many others.
    pub(crate) step: u64,
    pub(crate) group_size: usize,
    /// Updates that the weights which sample may be behind.
    pub(crate) max_staleness: u64,
}

impl RolloutGroups {
    /// A group of rollouts for each task, by the weights as they are.
    pub(crate) async fn run(
        &mut self,
        purpose: Purpose,
        tasks: GroupTasks,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let ids = self.enqueue(purpose, tasks).await?;
        self.gather(purpose, ids, reporter).await
    }

    /// Puts a group for each task on the queue; gives the ids of the rollouts.
    async fn enqueue(&self, purpose: Purpose, tasks: GroupTasks) -> Result<Vec<String>, TrainError> {
        enqueue(self.record.as_ref(), &self.plan(purpose), tasks).await
    }

    /// Groups that are on the queue, once they are over.
    async fn gather(
        &mut self,
        purpose: Purpose,
        ids: Vec<String>,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let collected = self.collect(purpose, ids, reporter).await?;
        check(&collected, &self.plan(purpose), reporter)?;
        Ok(collected)
    }

    /// As [`gather`](Self::gather), whether or not there is anything to learn from them.
    async fn collect(
        &mut self,
        purpose: Purpose,
        ids: Vec<String>,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let mut runner = self.runner.clone();
        let mut collected = collect(self.record.as_ref(), &self.plan(purpose), ids, &mut runner, reporter).await?;
        if let (Some(pairwise), Phase::Train) = (&self.pairwise, purpose.phase) {
            let judged = pairwise.reward(&mut collected).await?;
            if judged.undecided > 0 {
                let Judged { comparisons, undecided, answer, .. } = &judged;
                let (undecided, comparisons, answer) = (*undecided, *comparisons, answer.clone());
                reporter.report(TrainEvent::JudgeUndecided { step: purpose.step, undecided, comparisons, answer });
            }
            pairwise.check(&judged)?;
            self.record.give_rewards(judged.given).await?;
        }
        Ok(collected)
    }

    fn plan(&self, purpose: Purpose) -> Plan<'_> {
        let Purpose { phase, step, group_size, max_staleness } = purpose;
        Plan {
            run_id: &self.identity.run_id,
            run_seed: self.identity.seed,
            phase,
            step,
            group_size,
            config: &self.config,
            resources_id: resources_id(&self.identity.run_id, self.weights.version(step)),
            policy: Policy { distances: self.weights.distances(), max_staleness, ..self.policy.clone() },
            reward_rules: self.reward_rules,
            failures: self.failures,
        }
    }
}

/// Groups of the tasks that come next, in an order that follows from the seed.
///
/// Those of the `max_staleness` steps that follow are put on the queue along with them, so that agents go on while the
/// learner computes. A step's rollouts begin when that many updates are still to be made before it at most, so that
/// nothing that they sample is older, and nothing is thrown away.
pub(crate) struct DrivenTasks {
    pub(crate) groups: RolloutGroups,
    pub(crate) tasks: Vec<Value>,
    pub(crate) groups_per_batch: usize,
    pub(crate) group_size: usize,
    /// Further tasks in place of those that teach nothing.
    pub(crate) dynamic: Option<DynamicSampling>,
    /// Updates that the weights which sample may be behind.
    pub(crate) max_staleness: u64,
    /// Updates at most.
    pub(crate) max_steps: u64,
    /// The groups of the next steps, in order, as far as they are on the queue.
    pub(crate) ahead: VecDeque<Enqueued>,
}

/// Groups on the queue.
#[derive(Default)]
pub(crate) struct Enqueued {
    rollouts: Vec<String>,
    /// The index of each group's task.
    tasks: Vec<usize>,
}

#[async_trait]
impl Source<Collected> for DrivenTasks {
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let size = self.groups_per_batch;
        let last = (step + self.max_staleness).min(self.max_steps.saturating_sub(1)).max(step);
        for later in step + self.ahead.len() as u64..=last {
            let cursor = position.data_cursor + (later - step) * size as u64;
            let tasks = self.indices(&position.solve_rates, cursor, size);
            let groups = GroupTasks { tasks: self.tasks_of(&tasks), groups_before: 0 };
            let rollouts = self.groups.enqueue(self.purpose(later), groups).await?;
            self.ahead.push_back(Enqueued { rollouts, tasks });
        }
        let Enqueued { rollouts, tasks } = self.ahead.pop_front().unwrap_or_default();
        let purpose = self.purpose(step);
        let mut collected = self.groups.gather(purpose, rollouts, reporter).await?;
        position.data_cursor += size as u64;
        let mut teaching = self.judge(&tasks, &mut collected.groups, &mut position.solve_rates);
        for _ in 0..self.dynamic.map_or(0, |dynamic| dynamic.max_refills) {
            let lacking = size - teaching;
            if lacking == 0 {
                break;
            }
            let tasks = self.indices(&position.solve_rates, position.data_cursor, lacking);
            let further = GroupTasks { tasks: self.tasks_of(&tasks), groups_before: collected.groups.len() };
            let mut further = self.groups.run(purpose, further, reporter).await?;
            teaching += self.judge(&tasks, &mut further.groups, &mut position.solve_rates);
            collected.groups.extend(further.groups);
            collected.replaced.extend(further.replaced);
            position.data_cursor += lacking as u64;
        }
        Ok(collected)
    }

    async fn sampled_for_nothing(
        &mut self,
        step: u64,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<GenerationUse>, TrainError> {
        let mut uses = Vec::new();
        for (step, Enqueued { rollouts, .. }) in (step..).zip(std::mem::take(&mut self.ahead)) {
            let plan = self.groups.plan(self.purpose(step));
            let mut runner = self.groups.runner.clone();
            let record = self.groups.record.as_ref();
            let mut members = ended_members(record, &plan, rollouts, &mut runner, reporter).await?;
            members.iter_mut().for_each(|member| member.do_not_train(UntrainedCause::AfterLastStep));
            uses.extend(Collected::of(Phase::Train, vec![members]).uses());
        }
        Ok(uses)
    }
}

/// Groups of a step that are on the queue, to be read as they end.
pub(crate) struct PendingGroups {
    groups: RolloutGroups,
    purpose: Purpose,
    rollouts: Vec<String>,
}

impl PendingGroups {
    /// The ids of the rollouts in `count` parts of nearly equal numbers of groups, or in as many as there are groups.
    pub(crate) fn split(&mut self, count: NonZeroUsize) -> Vec<Vec<String>> {
        let mut rollouts = std::mem::take(&mut self.rollouts).into_iter();
        let groups = rollouts.len() / self.purpose.group_size;
        let count = count.get().min(groups);
        let size = |part: usize| ((part + 1) * groups / count - part * groups / count) * self.purpose.group_size;
        (0..count).map(|part| rollouts.by_ref().take(size(part)).collect()).collect()
    }

    /// Groups of these rollouts, once they are over.
    pub(crate) async fn collect(
        &mut self,
        rollouts: Vec<String>,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        self.groups.collect(self.purpose, rollouts, reporter).await
    }

    /// Refuses a batch from which nothing can be learnt.
    pub(crate) fn check(&self, collected: &Collected, reporter: &mut dyn Reporter) -> Result<(), TrainError> {
        check(collected, &self.groups.plan(self.purpose), reporter)
    }
}

#[async_trait]
impl Source<PendingGroups> for DrivenTasks {
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        _: &mut dyn Reporter,
    ) -> Result<PendingGroups, TrainError> {
        let tasks = self.indices(&position.solve_rates, position.data_cursor, self.groups_per_batch);
        let tasks = GroupTasks { tasks: self.tasks_of(&tasks), groups_before: 0 };
        let purpose = self.purpose(step);
        let rollouts = self.groups.enqueue(purpose, tasks).await?;
        position.data_cursor += self.groups_per_batch as u64;
        Ok(PendingGroups { groups: self.groups.clone(), purpose, rollouts })
    }
}

impl DrivenTasks {
    fn purpose(&self, step: u64) -> Purpose {
        let (group_size, max_staleness) = (self.group_size, self.max_staleness);
        Purpose { phase: Phase::Train, step, group_size, max_staleness }
    }

    /// The `count` tasks from this place on.
    fn indices(&self, rates: &SolveRates, cursor: u64, count: usize) -> Vec<usize> {
        let (seed, total) = (self.groups.identity.seed, self.tasks.len());
        match self.dynamic {
            Some(dynamic) if dynamic.prioritize => rates.draw(seed, total, cursor, count),
            _ => tasks_at(seed, total, cursor, count),
        }
    }

    fn tasks_of(&self, indices: &[usize]) -> Vec<Value> {
        indices.iter().map(|index| self.tasks[*index].clone()).collect()
    }

    /// How many of these groups have something to teach; those that are too easy or too hard are not trained.
    fn judge(&self, tasks: &[usize], groups: &mut [Vec<Member>], rates: &mut SolveRates) -> usize {
        let Some(dynamic) = self.dynamic else { return groups.len() };
        let mut teaching = 0;
        for (task, group) in tasks.iter().zip(groups) {
            let rate = solve_rate(group, dynamic.solved_at);
            if let Some(rate) = rate.filter(|_| dynamic.prioritize) {
                rates.learn(*task, rate);
            }
            if !can_teach(group) {
                continue;
            }
            match (dynamic.solve_rate, rate) {
                (Some([low, high]), Some(rate)) if !(low..=high).contains(&rate) => {
                    group.iter_mut().for_each(|member| member.do_not_train(UntrainedCause::OutsideDifficulty));
                }
                _ => teaching += 1,
            }
        }
        teaching
    }
}
