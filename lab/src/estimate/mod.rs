//! What a run would take, by one group of it.

pub mod group;

use fulgurite_config::declarations::{Config, PricesConfig};
use serde::Serialize;

use crate::runs::registry::{Cost, RunEntry, Tokens, prices_of};

/// How much of everything a run has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// Updates; one if the config does not say how many.
    pub updates: u64,
    /// Whether it says so.
    pub is_bounded: bool,
    /// Rollouts of an update.
    pub rollouts_per_update: u64,
    /// Rollouts that are scored and not trained, in all.
    pub evaluation_rollouts: u64,
}

impl Planned {
    /// What a config says, which scores so many tasks while it trains and at the end.
    pub fn of(config: &Config, held_out: usize, last: usize) -> Self {
        let trainer = &config.trainer;
        let rollouts = trainer.rollouts_or_usual();
        let updates = trainer.common.max_steps.unwrap_or(1);
        // Before every so many updates, and after the last.
        let scorings = if held_out == 0 { 0 } else { updates.div_ceil(rollouts.evaluation.every.max(1)) + 1 };
        let samples = rollouts.evaluation.samples_per_task as u64;
        Self {
            updates,
            is_bounded: trainer.common.max_steps.is_some(),
            rollouts_per_update: (rollouts.groups_per_batch * rollouts.group_size) as u64,
            evaluation_rollouts: samples * (scorings * held_out as u64 + last as u64),
        }
    }
}

/// What one update on one group took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Its rollouts.
    pub rollouts: u64,
    /// All rollouts, those that were scored among them.
    pub all_rollouts: u64,
    /// Seconds that its rollouts ran.
    pub sampling_seconds: f64,
    /// Seconds of the update.
    pub training_seconds: f64,
}

/// What a run would take.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// What was multiplied.
    pub planned: Planned,
    /// By what.
    pub measured: Measured,
    /// Rollouts in all.
    pub rollouts: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Of rollouts, one group after the other: several at a time take less.
    pub sampling_seconds: f64,
    /// Of updates.
    pub training_seconds: f64,
    /// If there are prices.
    pub cost: Option<Cost>,
}

impl Estimate {
    /// Multiplies what one group's run took.
    pub fn of(planned: Planned, measured: Measured, run: &RunEntry, prices: Option<&PricesConfig>) -> Self {
        let trained_rollouts = planned.updates * planned.rollouts_per_update;
        let rollouts = trained_rollouts + planned.evaluation_rollouts;
        let scale = |of: u64, by: u64, all: u64| (of as f64 * all as f64 / by.max(1) as f64).round() as u64;
        // What was sampled to be trained may come to nothing in one group and to much in another.
        let to_train = scale(run.tokens.trained + run.tokens.thrown_away, measured.rollouts, trained_rollouts);
        let scored = measured.all_rollouts.saturating_sub(measured.rollouts);
        let evaluation = scale(run.tokens.evaluation, scored, planned.evaluation_rollouts);
        let tokens = Tokens {
            sampled: to_train + evaluation,
            prefilled: scale(run.tokens.prefilled, measured.all_rollouts, rollouts),
            prompts: scale(run.tokens.prompts, measured.all_rollouts, rollouts),
            trained: to_train,
            evaluation,
            ..Tokens::default()
        };
        let times = trained_rollouts as f64 / measured.rollouts.max(1) as f64;
        Self {
            cost: prices.map(|prices| prices_of(prices, &tokens, rollouts, None)),
            sampling_seconds: measured.sampling_seconds * times,
            training_seconds: measured.training_seconds * times,
            planned,
            measured,
            rollouts,
            tokens,
        }
    }

    /// As lines for people, each with its name.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Planned { updates, is_bounded, rollouts_per_update, evaluation_rollouts } = self.planned;
        let of =
            if is_bounded { format!("{updates} updates") } else { "one update, since max_steps is not set".to_owned() };
        let mut lines = vec![
            (
                "run",
                format!("{of}, {rollouts_per_update} rollouts each, and {evaluation_rollouts} that are scored alone"),
            ),
            ("sampled tokens", self.tokens.sampled.to_string()),
            ("prefilled tokens", self.tokens.prefilled.to_string()),
            ("trained tokens", format!("{} at most", self.tokens.trained)),
            ("sampling", format!("{:.0} s at most, one group after the other", self.sampling_seconds)),
            ("training", format!("{:.0} s", self.training_seconds)),
        ];
        if let Some(cost) = &self.cost {
            lines.push(("cost", format!("{:.4} {}", cost.total, cost.currency)));
        }
        let Measured { rollouts, sampling_seconds, training_seconds, .. } = self.measured;
        let measured = format!(
            "one group of {rollouts}: {sampling_seconds:.2} s of sampling, {training_seconds:.2} s of training; nothing of it is kept"
        );
        lines.push(("measured", measured));
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::runs::registry::RunState;

    #[test]
    fn a_run_is_as_many_times_what_one_group_took_as_it_has_groups() {
        let planned = Planned { updates: 10, is_bounded: true, rollouts_per_update: 32, evaluation_rollouts: 24 };
        let measured = Measured { rollouts: 4, all_rollouts: 12, sampling_seconds: 2.0, training_seconds: 0.5 };
        let tokens = Tokens {
            sampled: 120,
            prefilled: 60,
            prompts: 60,
            trained: 30,
            evaluation: 80,
            thrown_away: 10,
            by_cause: BTreeMap::new(),
        };
        let run = RunEntry {
            run_id: "r".to_owned(),
            directory: None,
            state: RunState::Ended,
            failure: None,
            measure: None,
            objective: "grpo".to_owned(),
            seed: 1,
            start_time: 0.0,
            updates: 1,
            first: None,
            best: None,
            last: None,
            checkpoints: 1,
            wall_seconds: 3.0,
            rollouts: BTreeMap::new(),
            tokens,
            cost: None,
        };
        let prices = PricesConfig { currency: "USD".to_owned(), sampled: 1.0, prefilled: 1.0, trained: 1.0 };
        let estimate = Estimate::of(planned, measured, &run, Some(&prices));
        assert_eq!((estimate.rollouts, estimate.tokens.trained, estimate.tokens.evaluation), (344, 3200, 240));
        assert_eq!((estimate.tokens.sampled, estimate.tokens.prefilled), (3440, 1720));
        assert_eq!((estimate.sampling_seconds, estimate.training_seconds), (160.0, 40.0));
        assert!((estimate.cost.as_ref().unwrap().total - (3440.0 + 1720.0 + 3200.0) / 1e6).abs() < 1e-12);
        assert!(estimate.lines().iter().any(|(name, value)| *name == "cost" && value == "0.0084 USD"), "{estimate:?}");
    }
}
