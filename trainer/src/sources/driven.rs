//! Rollouts that the run itself puts on the queue: groups of the tasks that come next, now or some steps ahead.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{GenerationUse, RolloutConfig, UntrainedCause};
use serde_json::Value;
use tokio::sync::watch;

use super::source::{DataPosition, Source};
use super::task_order::tasks_at;
use crate::publishing::resources_id;
use crate::rollouts::{
    Collected, GroupTasks, Pairwise, Phase, Plan, Policy, RewardRules, can_teach, ended_members, enqueue, gather,
};
use crate::{Record, Reporter, RunIdentity, TrainError};

/// Has groups of rollouts run for a run.
#[derive(Clone)]
pub(crate) struct RolloutGroups {
    pub(crate) record: Arc<dyn Record>,
    pub(crate) identity: RunIdentity,
    /// Timeouts and retries of each rollout.
    pub(crate) config: RolloutConfig,
    /// What has to have sampled what is trained.
    pub(crate) policy: Policy,
    pub(crate) reward_rules: RewardRules,
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
        let ids = self.enqueue(purpose, purpose.step, tasks).await?;
        self.gather(purpose, ids, reporter).await
    }

    /// Puts a group for each task on the queue, after `updates` updates; gives the ids of the rollouts.
    async fn enqueue(&self, purpose: Purpose, updates: u64, tasks: GroupTasks) -> Result<Vec<String>, TrainError> {
        let plan = Plan { resources_id: resources_id(&self.identity.run_id, updates), ..self.plan(purpose) };
        enqueue(self.record.as_ref(), &plan, tasks).await
    }

    /// Groups that are on the queue, once they are over.
    async fn gather(
        &mut self,
        purpose: Purpose,
        ids: Vec<String>,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let mut runner = self.runner.clone();
        let mut collected = gather(self.record.as_ref(), &self.plan(purpose), ids, &mut runner, reporter).await?;
        if let (Some(pairwise), Phase::Train) = (&self.pairwise, purpose.phase) {
            pairwise.reward(&mut collected).await?;
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
            resources_id: resources_id(&self.identity.run_id, step),
            policy: Policy { weights_version: step, max_staleness, ..self.policy.clone() },
            reward_rules: self.reward_rules,
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
    /// How often, at most, as many further tasks are tried as groups have nothing to teach.
    pub(crate) max_refills: usize,
    /// Updates that the weights which sample may be behind.
    pub(crate) max_staleness: u64,
    /// Updates at most.
    pub(crate) max_steps: u64,
    /// The rollouts of the next steps, in order, as far as they are on the queue.
    pub(crate) ahead: VecDeque<Vec<String>>,
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
            let tasks = GroupTasks { tasks: self.tasks_at(cursor, size), groups_before: 0 };
            self.ahead.push_back(self.groups.enqueue(self.purpose(later), step, tasks).await?);
        }
        let rollouts = self.ahead.pop_front().unwrap_or_default();
        let purpose = self.purpose(step);
        let mut collected = self.groups.gather(purpose, rollouts, reporter).await?;
        position.data_cursor += size as u64;
        for _ in 0..self.max_refills {
            let teaching = collected.groups.iter().filter(|group| can_teach(group)).count();
            let lacking = size - teaching;
            if lacking == 0 {
                break;
            }
            let tasks = self.tasks_at(position.data_cursor, lacking);
            let further = GroupTasks { tasks, groups_before: collected.groups.len() };
            collected.groups.extend(self.groups.run(purpose, further, reporter).await?.groups);
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
        for (step, rollouts) in (step..).zip(std::mem::take(&mut self.ahead)) {
            let plan = self.groups.plan(self.purpose(step));
            let mut runner = self.groups.runner.clone();
            let record = self.groups.record.as_ref();
            let mut members = ended_members(record, &plan, rollouts, &mut runner, reporter).await?;
            members.iter_mut().for_each(|member| member.do_not_train(UntrainedCause::AfterLastStep));
            uses.extend(Collected { phase: Phase::Train, groups: vec![members] }.uses());
        }
        Ok(uses)
    }
}

impl DrivenTasks {
    fn purpose(&self, step: u64) -> Purpose {
        let (group_size, max_staleness) = (self.group_size, self.max_staleness);
        Purpose { phase: Phase::Train, step, group_size, max_staleness }
    }

    /// The `count` tasks from this place on.
    fn tasks_at(&self, cursor: u64, count: usize) -> Vec<Value> {
        let indices = tasks_at(self.groups.identity.seed, self.tasks.len(), cursor, count);
        indices.iter().map(|index| self.tasks[*index].clone()).collect()
    }
}
