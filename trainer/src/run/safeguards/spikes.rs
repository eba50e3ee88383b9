//! Spikes of the gradient: optimizer steps that are left out, since one of them can undo a run.

use std::collections::VecDeque;

use fulgurite_backends::{AdamParameters, GuardedStep, Learner};
use fulgurite_types::Step;
use serde_json::{Map, Value};

use super::learner_metrics::LearnerMetrics;
use crate::options::CommonOptions;
use crate::{TrainError, TrainEvent};

/// The greatest norm of an update's gradients.
const GRADIENT_NORM: &str = "optim/gradient_norm";
/// Optimizer steps of an update that were left out.
const SKIPPED: &str = "optim/skipped_steps";
/// What the norm of a step's gradient may be at most, once there is a median.
const BOUND: &str = "optim/spike_bound";
/// Norms that there have to be for a median.
const LEAST_KNOWN: usize = 8;

/// Which optimizer steps are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpikeRule {
    factor: f64,
    window: usize,
    most_in_a_row: u64,
}

impl SpikeRule {
    /// As the options say.
    pub(crate) fn of(options: &CommonOptions) -> Option<Self> {
        let factor = options.spike_factor?;
        Some(Self { factor, window: options.spike_window, most_in_a_row: options.stop_after_spikes })
    }
}

/// Holds the optimizer steps of a run against those before them. All that it knows stands in the record of the run's steps, so
/// that a resumed run leaves out the same ones.
#[derive(Clone, Debug)]
pub(crate) struct SpikeGuard {
    rule: SpikeRule,
    /// Norms of the last updates that left nothing out.
    norms: VecDeque<f64>,
    /// The last updates one after another that left something out.
    in_a_row: u64,
}

impl SpikeGuard {
    /// After no step.
    pub(crate) fn new(rule: SpikeRule) -> Self {
        Self { rule, norms: VecDeque::new(), in_a_row: 0 }
    }

    /// The same after these recorded steps.
    pub(crate) fn after(&self, steps: &[Step]) -> Self {
        let mut guard = Self::new(self.rule);
        for metrics in steps.iter().filter_map(|step| step.metrics.as_object()) {
            // An update that had nothing to learn from has no norm, and neither has the record after the last one.
            if let Some(norm) = metrics.get(GRADIENT_NORM) {
                guard.note(norm.as_f64(), metrics.get(SKIPPED).and_then(Value::as_u64).unwrap_or(0));
            }
        }
        guard
    }

    /// Takes in an update by its greatest norm, which is none where it is no number.
    fn note(&mut self, norm: Option<f64>, skipped: u64) {
        if skipped > 0 {
            self.in_a_row += 1;
            return;
        }
        self.in_a_row = 0;
        self.norms.extend(norm);
        while self.norms.len() > self.rule.window {
            self.norms.pop_front();
        }
    }

    /// What a norm may be at most; `None` as long as too few are known.
    fn bound(&self) -> Option<f64> {
        if self.norms.len() < LEAST_KNOWN.min(self.rule.window) {
            return None;
        }
        let mut sorted: Vec<f64> = self.norms.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(self.rule.factor * median)
    }

    /// Ends a run whose last updates all left something out.
    ///
    /// # Errors
    /// [`TrainError::Spikes`]
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let Self { rule: SpikeRule { factor, most_in_a_row, .. }, in_a_row, .. } = *self;
        if most_in_a_row == 0 || in_a_row < most_in_a_row {
            return Ok(());
        }
        Err(TrainError::Spikes { updates: in_a_row, factor, bound: self.bound() })
    }
}

/// The optimizer steps of one update.
#[derive(Default)]
pub(crate) struct UpdateSteps {
    guarded: bool,
    bound: Option<f64>,
    greatest_norm: f64,
    skipped: u64,
    of_learner: LearnerMetrics,
}

impl UpdateSteps {
    pub(crate) fn new(guard: Option<&SpikeGuard>) -> Self {
        Self { guarded: guard.is_some(), bound: guard.and_then(SpikeGuard::bound), ..Self::default() }
    }

    /// One step, unless its gradient is a spike.
    pub(crate) async fn make(&mut self, learner: &dyn Learner, optimizer: AdamParameters) -> Result<(), TrainError> {
        let made = if self.guarded {
            learner.optimizer_step_within(optimizer, self.bound.unwrap_or(f64::INFINITY)).await?
        } else {
            GuardedStep::Made(learner.optimizer_step(optimizer).await?)
        };
        let norm = match made {
            GuardedStep::Made(made) => {
                self.of_learner.add(&made.metrics);
                made.gradient_norm
            }
            GuardedStep::Skipped { gradient_norm } => {
                self.skipped += 1;
                gradient_norm
            }
        };
        // A norm that is no number stays one.
        if !(norm <= self.greatest_norm || self.greatest_norm.is_nan()) {
            self.greatest_norm = norm;
        }
        Ok(())
    }

    /// The greatest norm of its gradients.
    pub(crate) fn greatest_norm(&self) -> f64 {
        self.greatest_norm
    }

    /// Adds what the metrics of the update say of its steps, and has the guard know them; gives the warning of a step that was
    /// left out.
    pub(crate) fn write(
        self,
        step: u64,
        guard: Option<&mut SpikeGuard>,
        metrics: &mut Map<String, Value>,
    ) -> Option<TrainEvent> {
        let of_learner = self.of_learner.into_metrics();
        metrics.extend(of_learner.map(|(key, value)| (key.to_owned(), value.into())));
        metrics.insert(GRADIENT_NORM.to_owned(), self.greatest_norm.into());
        let guard = guard?;
        metrics.insert(SKIPPED.to_owned(), self.skipped.into());
        if let Some(bound) = self.bound {
            metrics.insert(BOUND.to_owned(), bound.into());
        }
        let norm = Some(self.greatest_norm).filter(|norm| norm.is_finite());
        guard.note(norm, self.skipped);
        let (bound, in_a_row) = (self.bound, guard.in_a_row);
        (self.skipped > 0).then_some(TrainEvent::StepsSkipped { step, skipped: self.skipped, norm, bound, in_a_row })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn guard(window: usize) -> SpikeGuard {
        SpikeGuard::new(SpikeRule { factor: 10.0, window, most_in_a_row: 2 })
    }

    #[test]
    fn a_norm_is_held_against_the_median_of_the_last_ones() {
        let mut guard = guard(9);
        for norm in [1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0] {
            guard.note(Some(norm), 0);
        }
        assert_eq!(guard.bound(), None, "seven are too few");
        guard.note(Some(6.0), 0);
        assert_eq!(guard.bound(), Some(50.0), "between 4 and 6");
        guard.note(Some(500.0), 1);
        assert_eq!(guard.bound(), Some(50.0), "what was left out is no measure");
        guard.note(Some(5.0), 0);
        guard.note(Some(5.0), 0);
        guard.note(Some(5.0), 0);
        assert_eq!(guard.bound(), Some(50.0));
        assert_eq!(guard.norms.len(), 9);
        assert_eq!(SpikeGuard::new(SpikeRule { window: 1, ..guard.rule }).bound(), None);
    }

    #[test]
    fn spikes_one_after_another_end_the_run() {
        let mut guard = guard(4);
        guard.note(None, 1);
        guard.check().unwrap();
        guard.note(Some(1.0), 0);
        guard.note(None, 1);
        guard.check().unwrap();
        guard.note(Some(50.0), 1);
        let error = guard.check().unwrap_err().to_string();
        assert!(error.starts_with("2 updates in a row left out a step"), "{error}");
        SpikeGuard { rule: SpikeRule { most_in_a_row: 0, ..guard.rule }, ..guard }.check().unwrap();
    }

    #[test]
    fn a_resumed_run_knows_the_norms_of_its_record() {
        let step = |metrics: Value| Step { run_id: String::new(), step: 1, weights_version: 1, time: 0.0, metrics };
        let mut live = guard(3);
        let mut steps = Vec::new();
        for (norm, skipped) in [(0.1, 0), (0.7, 0), (90.0, 1), (1.0 / 3.0, 0), (0.2, 0), (f64::NAN, 1)] {
            live.note(Some(norm).filter(|norm| norm.is_finite()), skipped);
            let metrics = json!({ GRADIENT_NORM: norm, SKIPPED: skipped });
            steps.push(step(serde_json::from_str(&metrics.to_string()).unwrap()));
        }
        steps.push(step(json!({ "optim/datums": 0 })));
        let resumed = guard(3).after(&steps);
        assert_eq!((&resumed.norms, resumed.in_a_row), (&live.norms, live.in_a_row));
        assert_eq!(resumed.bound(), live.bound());
    }
}
