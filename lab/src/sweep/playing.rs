//! A sweep from its first run to its last: rungs, and arms that are stopped at them.

use std::collections::BTreeMap;

use anyhow::Result;

use super::execution::{Execution, Outcome};
use super::plan::SweepRun;
use super::{halving, results, scores};

/// A sweep that is going on.
pub struct Sweep<'a> {
    execution: Execution<'a>,
    /// Runs that have ended or failed.
    ended: usize,
    /// Runs that failed, each with the first line of its error.
    pub failures: BTreeMap<String, String>,
    /// Arms that were stopped early.
    pub stopped: Vec<usize>,
}

/// What happens in a sweep.
pub enum SweepEvent<'e> {
    /// A run has ended or failed.
    RunEnded {
        /// The run.
        run: &'e SweepRun,
        /// How it ended.
        outcome: &'e Outcome,
        /// Runs that have ended or failed, with this one.
        ended: usize,
        /// Runs in all.
        all: usize,
    },
    /// An arm is among the worse half, and is not run any more.
    StoppedEarly {
        /// Its name.
        arm: &'e str,
        /// The updates after which the arms were compared.
        updates: u64,
    },
}

impl<'a> Sweep<'a> {
    /// Nothing of it is played yet.
    pub fn new(execution: Execution<'a>) -> Self {
        Self { execution, ended: 0, failures: BTreeMap::new(), stopped: Vec::new() }
    }

    /// Plays every run that is left.
    ///
    /// # Errors
    /// If the plan cannot be read, or no run can be started.
    pub async fn play(&mut self, happened: &mut dyn FnMut(SweepEvent<'_>)) -> Result<()> {
        let plan = self.execution.plan;
        if plan.stop_early {
            for rung in halving::rungs(plan.max_steps()?) {
                self.play_until(Some(rung), happened).await?;
                let alive: Vec<usize> = (0..plan.arms.len()).filter(|arm| self.is_alive(*arm)).collect();
                let hopeless = halving::hopeless(plan, self.execution.directory, &alive, rung);
                for arm in &hopeless {
                    happened(SweepEvent::StoppedEarly { arm: &plan.arms[*arm].name, updates: rung });
                }
                self.stopped.extend(hopeless);
            }
        }
        self.play_until(None, happened).await
    }

    /// Whether an arm is still run: it was not stopped, and none of its runs failed.
    fn is_alive(&self, arm: usize) -> bool {
        let runs = self.execution.plan.runs().into_iter().filter(|run| run.arm == arm);
        !self.stopped.contains(&arm) && runs.into_iter().all(|run| !self.failures.contains_key(&run.name))
    }

    /// Plays what is left until it has ended, or has made so many updates.
    async fn play_until(&mut self, until: Option<u64>, happened: &mut dyn FnMut(SweepEvent<'_>)) -> Result<()> {
        let Self { execution, ended, failures, stopped } = self;
        let (plan, directory) = (execution.plan, execution.directory);
        let mut runs = Vec::new();
        for run in plan.runs() {
            let path = directory.join(&run.name);
            let is_left = !stopped.contains(&run.arm) && !failures.contains_key(&run.name);
            let has_reached = until.is_some_and(|until| scores::updates(&scores::steps(&path)) >= until);
            if is_left && !has_reached && !results::is_over(&path).await {
                runs.push(run);
            }
        }
        let all = plan.runs().len();
        let mut note = |run: &SweepRun, outcome: &Outcome| {
            if *outcome != Outcome::Paused {
                *ended += 1;
                happened(SweepEvent::RunEnded { run, outcome, ended: *ended, all });
            }
        };
        for (run, outcome) in execution.play(runs, until, &mut note).await? {
            if let Outcome::Failed(error) = outcome {
                failures.insert(run.name, error);
            }
        }
        Ok(())
    }
}
