//! Rollouts that the run itself puts on the queue: groups of the tasks that come next.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::RolloutConfig;
use serde_json::Value;
use tokio::sync::watch;

use super::source::{DataPosition, Source};
use super::task_order::tasks_at;
use crate::objectives::is_constant;
use crate::publishing::resources_id;
use crate::rollouts::{Collected, Member, Phase, Plan, Policy, RewardRules, collect};
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
}

impl RolloutGroups {
    /// A group of `group_size` rollouts for each task, by the weights after `step` updates, for which `groups_before`
    /// groups have been run.
    pub(crate) async fn run(
        &mut self,
        phase: Phase,
        step: u64,
        groups_before: usize,
        tasks: Vec<Value>,
        group_size: usize,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let plan = Plan {
            run_id: &self.identity.run_id,
            run_seed: self.identity.seed,
            phase,
            step,
            tasks,
            groups_before,
            group_size,
            config: &self.config,
            resources_id: resources_id(&self.identity.run_id, step),
            policy: Policy { weights_version: step, ..self.policy.clone() },
            reward_rules: self.reward_rules,
        };
        collect(self.record.as_ref(), plan, &mut self.runner, reporter).await
    }
}

/// Groups of the tasks that come next, in an order that follows from the seed.
pub(crate) struct DrivenTasks {
    pub(crate) groups: RolloutGroups,
    pub(crate) tasks: Vec<Value>,
    pub(crate) groups_per_batch: usize,
    pub(crate) group_size: usize,
    /// How often, at most, as many further tasks are tried as groups have nothing to teach.
    pub(crate) max_refills: usize,
}

#[async_trait]
impl Source<Collected> for DrivenTasks {
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let mut collected = self.run(step, 0, self.groups_per_batch, position, reporter).await?;
        for _ in 0..self.max_refills {
            let teaching = collected.groups.iter().filter(|group| can_teach(group)).count();
            let lacking = self.groups_per_batch - teaching;
            if lacking == 0 {
                break;
            }
            let further = self.run(step, collected.groups.len(), lacking, position, reporter).await?;
            collected.groups.extend(further.groups);
        }
        Ok(collected)
    }
}

impl DrivenTasks {
    /// The next `count` tasks, as groups of the update that follows `step` others.
    async fn run(
        &mut self,
        step: u64,
        groups_before: usize,
        count: usize,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let seed = self.groups.identity.seed;
        let indices = tasks_at(seed, self.tasks.len(), position.data_cursor, count);
        let tasks = indices.iter().map(|index| self.tasks[*index].clone()).collect();
        let collected = self.groups.run(Phase::Train, step, groups_before, tasks, self.group_size, reporter).await?;
        position.data_cursor += count as u64;
        Ok(collected)
    }
}

/// Whether not all that succeeded earned the same.
fn can_teach(group: &[Member]) -> bool {
    let rewards: Vec<f64> =
        group.iter().filter(|member| member.succeeded()).map(|member| member.total_reward).collect();
    !is_constant(&rewards)
}
