//! The metrics of a run's steps, as its directory has them.

use std::path::Path;

use serde_json::Value;

use super::files::read_text;

/// The mean reward of a step's rollouts.
pub(crate) const REWARD: &str = "env/all/reward/total";
/// The mean reward of what is held out.
pub(crate) const HELD_OUT_REWARD: &str = "test/env/all/reward/total";

/// One object a step, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<Value>);

impl Metrics {
    pub(crate) fn read(path: &Path) -> Self {
        // A run before its first step has no file.
        let text = read_text(path).unwrap_or_default();
        Self(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Updates that are recorded: the last line, of the scores after all of them, has none of its own.
    pub(crate) fn updates(&self) -> u64 {
        let update = |metrics: &&Value| metrics.get("optim/lr").is_some();
        self.0.iter().rev().find(update).and_then(|metrics| metrics["step"].as_u64()).map_or(0, |step| step + 1)
    }

    /// Those of the updates after the first `made`.
    pub(crate) fn after(&self, made: u64) -> &[Value] {
        let start = self.0.iter().position(|metrics| metrics["step"].as_u64().is_some_and(|step| step >= made));
        &self.0[start.unwrap_or(self.0.len())..]
    }

    /// What a metric was, with the updates before it, oldest first.
    pub(crate) fn of(&self, key: &str) -> Vec<(u64, f64)> {
        self.0.iter().filter_map(|metrics| Some((metrics["step"].as_u64()?, metrics[key].as_f64()?))).collect()
    }
}
