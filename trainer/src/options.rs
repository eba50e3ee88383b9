use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::summary::Scores;
use crate::{AdvantageOptions, HarvestOptions};

/// How a policy is trained. Defaults are tinker-cookbook's where it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoOptions {
    /// Tasks per step; each becomes a group of rollouts.
    pub groups_per_batch: usize,
    /// Rollouts of one task, whose mean reward is the baseline.
    pub group_size: usize,
    /// Adam's step size; constant.
    pub learning_rate: f64,
    /// Adam's decay of the first moment.
    pub beta1: f64,
    /// Adam's decay of the second moment.
    pub beta2: f64,
    /// Greatest norm of the gradient; 0 does not clip.
    pub gradient_clip_norm: f64,
    /// Updates at most.
    pub max_steps: u64,
    /// A checkpoint after every this many updates, and after the last.
    pub checkpoint_every: u64,
    /// Checkpoints that are kept; older ones are removed once a newer one is recorded.
    pub keep_checkpoints: usize,
    /// The least and the greatest that a rollout may earn in all. One that earned something else is refused by name, and
    /// counts as failed; without bounds, only what is too large to be summed is.
    pub reward_bounds: Option<[f64; 2]>,
    /// How rewards become advantages.
    pub advantages: AdvantageOptions,
    /// What agents are told to send with their calls, in the `main_llm` resource. Tokens that are sampled from a
    /// modified distribution are not trained.
    pub sampling_parameters: Map<String, Value>,
    /// When and how the held-out tasks are scored.
    pub evaluation: EvaluationOptions,
    /// When to stop before `max_steps`.
    pub stop: StopRule,
    /// Learn from whatever rewarded rollouts there are, in place of tasks.
    pub harvest: Option<HarvestOptions>,
}

impl Default for GrpoOptions {
    fn default() -> Self {
        Self {
            groups_per_batch: 16,
            group_size: 8,
            learning_rate: 1e-4,
            beta1: 0.9,
            beta2: 0.95,
            gradient_clip_norm: 1.0,
            max_steps: 100,
            checkpoint_every: 1,
            keep_checkpoints: 2,
            reward_bounds: None,
            advantages: AdvantageOptions::default(),
            sampling_parameters: Map::from_iter([("temperature".to_owned(), Value::from(1.0))]),
            evaluation: EvaluationOptions::default(),
            stop: StopRule::default(),
            harvest: None,
        }
    }
}

impl GrpoOptions {
    /// What a gradient of this norm is multiplied by, so that its norm is `gradient_clip_norm` at most.
    pub(crate) fn clip_factor(&self, norm: f64) -> f64 {
        let clip = self.gradient_clip_norm;
        if clip > 0.0 && norm > clip { clip / norm } else { 1.0 }
    }
}

/// When and how the held-out tasks are scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationOptions {
    /// Score before every this many updates, and after the last.
    pub every: u64,
    /// Rollouts of each held-out (and final) task.
    pub samples_per_task: usize,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self { every: 1, samples_per_task: 4 }
    }
}

/// Stop once the evaluations of the held-out tasks reach every threshold; without thresholds, never.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopRule {
    /// Least mean reward.
    pub held_out_reward: Option<f64>,
    /// Least mean of the reward's named components.
    pub held_out: BTreeMap<String, f64>,
    /// Evaluations one after another that must reach them: one alone may be lucky.
    pub in_a_row: usize,
}

impl Default for StopRule {
    fn default() -> Self {
        Self { held_out_reward: None, held_out: BTreeMap::new(), in_a_row: 1 }
    }
}

impl StopRule {
    /// Whether the evaluations so far, oldest first, end the training.
    pub fn is_met(&self, evaluations: &[Scores]) -> bool {
        let last = evaluations.len().checked_sub(self.in_a_row.max(1)).map(|start| &evaluations[start..]);
        last.is_some_and(|last| last.iter().all(|scores| self.reaches(scores)))
    }

    fn reaches(&self, Scores { reward, components, .. }: &Scores) -> bool {
        let any = self.held_out_reward.is_some() || !self.held_out.is_empty();
        any && self.held_out_reward.is_none_or(|least| *reward >= least)
            && self.held_out.iter().all(|(name, least)| components.get(name).is_some_and(|mean| mean >= least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_must_be_reached() {
        let scores = |reward: f64, exact: Option<f64>| Scores {
            reward,
            components: exact.map(|exact| ("exact".to_owned(), exact)).into_iter().collect(),
            ..Scores::default()
        };
        let held_out = BTreeMap::from([("exact".to_owned(), 0.9)]);
        let rule = StopRule { held_out_reward: Some(0.95), held_out, in_a_row: 1 };
        assert!(rule.is_met(&[scores(0.95, Some(0.9))]));
        assert!(!rule.is_met(&[scores(0.94, Some(0.9))]));
        assert!(!rule.is_met(&[scores(0.95, Some(0.89))]));
        assert!(!rule.is_met(&[scores(0.95, None)]), "a component that nobody reports is not reached");
        assert!(!rule.is_met(&[]));
        assert!(!StopRule::default().is_met(&[scores(1.0, None)]), "no threshold, no stop");

        let (good, bad) = (scores(1.0, Some(1.0)), scores(0.0, Some(0.0)));
        let rule = StopRule { in_a_row: 2, ..rule };
        assert!(!rule.is_met(std::slice::from_ref(&good)));
        assert!(!rule.is_met(&[good.clone(), bad.clone(), good.clone()]));
        assert!(rule.is_met(&[bad, good.clone(), good]));
    }
}
