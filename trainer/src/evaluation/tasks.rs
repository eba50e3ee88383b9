//! Scores of tasks that are held out: rollouts of which nothing is trained.

use std::time::Instant;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::evaluator::{Evaluation, Evaluator};
use crate::objectives::report_odd_rewards;
use crate::options::{EvaluationOptions, StopRule};
use crate::rollouts::Phase;
use crate::scores::{FINAL, HELD_OUT, Scores};
use crate::sources::{GroupTasks, Purpose, RolloutGroups};
use crate::{Reporter, TrainError};

/// Scores a run on tasks.
pub(crate) struct TaskEvaluator {
    pub(crate) groups: RolloutGroups,
    pub(crate) options: EvaluationOptions,
    pub(crate) stop: StopRule,
    /// Who harvests has nobody to run them, and none.
    pub(crate) held_out: Vec<Value>,
    pub(crate) last: Vec<Value>,
}

#[async_trait]
impl Evaluator for TaskEvaluator {
    fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.options.every)
    }

    async fn held_out(&mut self, step: u64, reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        let tasks = self.held_out.clone();
        self.score(Phase::HeldOut, HELD_OUT, step, tasks, reporter).await
    }

    async fn last(&mut self, step: u64, reporter: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        let tasks = self.last.clone();
        self.score(Phase::Final, FINAL, step, tasks, reporter).await
    }

    fn is_met(&self, history: &[&Map<String, Value>]) -> bool {
        let scores: Vec<Scores> = history.iter().filter_map(|metrics| Scores::read(metrics, HELD_OUT)).collect();
        self.stop.is_met(&scores)
    }
}

impl TaskEvaluator {
    async fn score(
        &mut self,
        phase: Phase,
        prefix: &str,
        step: u64,
        tasks: Vec<Value>,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Evaluation>, TrainError> {
        if tasks.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let purpose = Purpose { phase, step, group_size: self.options.samples_per_task, max_staleness: 0 };
        let tasks = GroupTasks { tasks, groups_before: 0 };
        let collected = self.groups.run(purpose, tasks, reporter).await?;
        let mut metrics = Map::new();
        let odd = report_odd_rewards(&collected, step, reporter);
        Scores::of(collected.groups.iter().flatten()).write(prefix, &mut metrics);
        metrics.extend(odd.into_iter().map(|(key, count)| (key, count.into())));
        let seconds = started.elapsed().as_secs_f64();
        Ok(Some(Evaluation { metrics, uses: collected.uses(), seconds, costs: Vec::new() }))
    }
}
