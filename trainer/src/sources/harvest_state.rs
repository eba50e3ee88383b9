//! How far a run has harvested, and what it measures rollouts against that are alone with their task.

use fulgurite_types::Rewarded;
use serde::{Deserialize, Serialize};

/// How far a run has harvested; part of its checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HarvestState {
    /// The place among the rewards up to which the store has been read.
    pub(super) cursor: u64,
    /// Attempts that were rewarded before they ended.
    pub(super) running: Vec<Rewarded>,
    /// The running mean of rewards; `None` before the first.
    baseline: Option<f64>,
}

impl HarvestState {
    /// What a rollout that is alone with its task is measured against. The first ones are measured against their own mean.
    pub(crate) fn baseline(&self, alone: &[f64]) -> f64 {
        let mean = alone.iter().sum::<f64>() / alone.len().max(1) as f64;
        self.baseline.unwrap_or(mean)
    }

    /// Takes these rewards, in order, into the running mean.
    pub(crate) fn learn(&mut self, alone: &[f64], decay: f64) {
        let mut baseline = self.baseline(alone);
        for reward in alone {
            baseline = decay * baseline + (1.0 - decay) * reward;
        }
        self.baseline = (!alone.is_empty()).then_some(baseline).or(self.baseline);
    }

    /// Once learnt from: how many rewards of the step were measured against the running mean, where that is now, and how
    /// many attempts are rewarded and have not ended.
    pub(crate) fn metrics(&self, alone: &[f64]) -> impl Iterator<Item = (&'static str, f64)> {
        let counts = [("harvest/alone", alone.len() as f64), ("harvest/running", self.running.len() as f64)];
        counts.into_iter().chain(self.baseline.map(|baseline| ("harvest/baseline", baseline)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_runs_after_the_rewards() {
        let mut state = HarvestState::default();
        assert_eq!(state.baseline(&[1.0, 2.0]), 1.5, "the first are measured against their mean");
        state.learn(&[], 0.5);
        assert_eq!(state.baseline, None);
        state.learn(&[1.0, 2.0], 0.5);
        // 1.5 -> 1.25 -> 1.625
        assert_eq!(state.baseline(&[100.0]), 1.625);
        state.learn(&[], 0.5);
        assert_eq!(state.baseline, Some(1.625));
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<HarvestState>(&text).unwrap(), state);
    }
}
