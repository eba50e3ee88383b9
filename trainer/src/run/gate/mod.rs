//! Whether new weights are put behind a model: by what conversations that are held out cost under them and under those
//! that are there.

mod movement;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{KeptBackReason, TrainError};
use crate::scores::{Interval, bootstrap_interval};

/// Name of the directory in a run's own that holds a checkpoint of the weights that are behind the model, so that a
/// resumed run puts the same back.
pub(super) const DIRECTORY: &str = "behind-model";

/// How new weights are held against those behind the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GateRule {
    /// By what held-out conversations cost under both, when they are scored.
    NotWorse,
    /// By how far an update has moved the tokens that it learnt from, in nats a token.
    WithinBounds { max_kl: f64 },
}

/// Publishes only some of the new weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishGate {
    pub(crate) rule: GateRule,
    /// Updates that the weights behind the model may be behind the learner's, so that what agents say can still be learnt
    /// from.
    pub(crate) most_behind: u64,
}

impl PublishGate {
    /// Refuses to go on where nothing that agents say from now on could be learnt from.
    pub(crate) fn check(self, step: u64, behind: u64, version: u64) -> Result<(), TrainError> {
        match step - behind > self.most_behind {
            true => {
                let reason = match self.rule {
                    GateRule::NotWorse => KeptBackReason::Worse,
                    GateRule::WithinBounds { max_kl } => KeptBackReason::MovedTooFar { max_kl },
                };
                Err(TrainError::KeptBack { updates: step - behind, version, most: self.most_behind, reason })
            }
            false => Ok(()),
        }
    }
}

/// The weights that are behind the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BehindModel {
    /// The updates that made them.
    #[serde(rename = "version")]
    pub(crate) step: u64,
    /// What each conversation costs under them.
    pub(crate) costs: Vec<f64>,
}

/// How new weights compare with those behind the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// What a conversation costs more than it did, in the mean.
    pub(crate) difference: f64,
    /// How sure that is; unknown of a single conversation.
    pub(crate) interval: Option<Interval>,
}

impl Judgement {
    /// Of costs of the same conversations, in their order.
    pub(crate) fn of(new: &[f64], behind: &[f64]) -> Self {
        let differences: Vec<f64> = new.iter().zip(behind).map(|(new, behind)| new - behind).collect();
        let difference = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
        Self { difference, interval: bootstrap_interval(&differences) }
    }

    /// Whether the whole interval is of greater costs. What cannot be compared, as where a cost is no number, is worse.
    pub(crate) fn is_worse(&self) -> bool {
        !self.difference.is_finite() || self.interval.is_none_or(|interval| interval.low > 0.0)
    }
}

/// Writes which weights are behind the model now, and how new ones compared with those that were.
pub(crate) fn write_metrics(metrics: &mut Map<String, Value>, version: u64, judgement: Option<&Judgement>) {
    let mut set = |key: &str, value: Value| metrics.insert(format!("publish/{key}"), value);
    set("version", version.into());
    let Some(judgement) = judgement else { return };
    set("kept_back", u64::from(judgement.is_worse()).into());
    set("difference", judgement.difference.into());
    if let Some(Interval { low, high }) = judgement.interval {
        set("difference_low", low.into());
        set("difference_high", high.into());
    }
}

/// Where a checkpoint of what is behind the model is kept.
pub(crate) fn directory(run: &Path, version: u64) -> PathBuf {
    run.join(name(version))
}

/// The same as seen from the run's directory.
pub(super) fn name(version: u64) -> String {
    format!("{DIRECTORY}/{version:06}")
}

/// Removes all but those of these versions.
pub(crate) fn remove_others(run: &Path, versions: &[u64]) -> Result<(), TrainError> {
    let parent = run.join(DIRECTORY);
    let failed = |path: &Path, error: std::io::Error| TrainError::File {
        path: path.to_owned(),
        message: format!("cannot be cleared of older weights: {error}"),
    };
    for entry in std::fs::read_dir(&parent).into_iter().flatten() {
        let path = entry.map_err(|error| failed(&parent, error))?.path();
        if !versions.iter().any(|version| directory(run, *version) == path) {
            std::fs::remove_dir_all(&path).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_clearly_worse_is_kept_back() {
        let behind: Vec<f64> = (0..20).map(f64::from).collect();
        let judged = |change: &dyn Fn(usize) -> f64| {
            let new: Vec<f64> = behind.iter().enumerate().map(|(place, cost)| cost + change(place)).collect();
            Judgement::of(&new, &behind)
        };
        assert!(judged(&|_| 0.25).is_worse() && !judged(&|_| -0.25).is_worse());
        // The same, and worse in the mean by one conversation of twenty: chance explains that.
        assert!(!judged(&|_| 0.0).is_worse());
        let by_one = judged(&|place| if place == 0 { 1.0 } else { 0.0 });
        assert!(by_one.difference > 0.0 && !by_one.is_worse(), "{by_one:?}");
        assert!(judged(&|_| f64::NAN).is_worse() && judged(&|_| f64::INFINITY).is_worse());
    }

    #[test]
    fn metrics_say_what_is_behind_the_model_and_why() {
        let mut metrics = Map::new();
        write_metrics(&mut metrics, 3, Some(&Judgement::of(&[2.0, 2.0], &[1.0, 1.0])));
        assert_eq!(
            Value::Object(metrics),
            json!({ "publish/version": 3, "publish/kept_back": 1, "publish/difference": 1.0,
                    "publish/difference_low": 1.0, "publish/difference_high": 1.0 })
        );
    }
}
