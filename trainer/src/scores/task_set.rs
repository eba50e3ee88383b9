//! Scores of a set of tasks.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::rollouts::Member;

/// Where the metrics of an evaluation of the held-out tasks stand; the name is tinker-cookbook's.
pub(crate) const HELD_OUT: &str = "test/env/all";
/// Where those of the final tasks stand.
pub(crate) const FINAL: &str = "final/env/all";

/// Means over the rollouts of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Mean reward of the rollouts that succeeded.
    pub reward: f64,
    /// Means of the reward's named components.
    pub components: BTreeMap<String, f64>,
    /// Rollouts that succeeded.
    pub rollouts: usize,
    /// Rollouts that failed, and so are in no mean.
    pub failed: usize,
}

impl Scores {
    /// Writes the scores as metrics that begin with `prefix`.
    pub(crate) fn write(&self, prefix: &str, metrics: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| metrics.insert(format!("{prefix}/{name}"), value);
        set("reward/total", self.reward.into());
        for (name, mean) in &self.components {
            set(name, (*mean).into());
        }
        set("total_episodes", self.rollouts.into());
        set("failed_episodes", self.failed.into());
    }

    /// What [`Self::write`] wrote, if it did.
    pub(crate) fn read(metrics: &Map<String, Value>, prefix: &str) -> Option<Self> {
        let number = |name: &str| metrics.get(&format!("{prefix}/{name}")).and_then(Value::as_f64);
        let count = |name: &str| number(name).unwrap_or(0.0) as usize;
        let components = metrics
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.strip_prefix('/')?, value.as_f64()?)))
            .filter(|(name, _)| !["reward/total", "total_episodes", "failed_episodes"].contains(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let reward = number("reward/total")?;
        Some(Self { reward, components, rollouts: count("total_episodes"), failed: count("failed_episodes") })
    }

    /// Means over the members that succeeded; a component's over those that report it.
    pub(crate) fn of<'a>(members: impl Iterator<Item = &'a Member>) -> Self {
        let (mut rewards, mut failed) = (Vec::new(), 0);
        let mut components: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for member in members {
            if !member.succeeded() {
                failed += 1;
                continue;
            }
            rewards.push(member.total_reward);
            for (name, value) in member.reward().iter().flat_map(|reward| &reward.components) {
                components.entry(name.clone()).or_default().push(*value);
            }
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Self {
            reward: mean(&rewards),
            components: components.into_iter().map(|(name, values)| (name, mean(&values))).collect(),
            rollouts: rewards.len(),
            failed,
        }
    }
}
