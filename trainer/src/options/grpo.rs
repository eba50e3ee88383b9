use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::loss::{LossParameters, PolicyLoss};
use crate::evaluation::{EvaluationOptions, StopRule};
use crate::objectives::{AdvantageOptions, LossAggregation};
use crate::schedule::LearningRateSchedule;
use crate::sources::HarvestOptions;

/// How a policy is trained. Defaults are tinker-cookbook's where it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoOptions {
    /// Tasks per step; each becomes a group of rollouts.
    pub groups_per_batch: usize,
    /// Rollouts of one task, whose mean reward is the baseline.
    pub group_size: usize,
    /// Adam's step size, at its greatest.
    pub learning_rate: f64,
    /// How the step size goes on after the warm-up.
    pub learning_rate_schedule: LearningRateSchedule,
    /// Updates over which the step size grows from 0.
    pub warmup: u64,
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
    /// Whether a rollout whose last answer was cut off by the limit of its tokens earns 0 at most, so that running into the
    /// limit never pays.
    pub zero_reward_on_limit: bool,
    /// What is made of advantages and logprobs.
    pub loss: PolicyLoss,
    /// The loss's numbers, where they are not its usual ones.
    pub loss_parameters: LossParameters,
    /// What the losses of a step's tokens are divided by.
    pub loss_aggregation: LossAggregation,
    /// What leaving a reference policy costs; without it, nothing does.
    pub kl: Option<KlOptions>,
    /// Optimizer steps that a batch is split into, between groups, never through one.
    pub substeps: NonZeroUsize,
    /// Further tasks in place of those whose groups have nothing to teach; without it, a step makes do with what is left.
    pub dynamic_sampling: Option<DynamicSampling>,
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
            learning_rate_schedule: LearningRateSchedule::default(),
            warmup: 0,
            beta1: 0.9,
            beta2: 0.95,
            gradient_clip_norm: 1.0,
            max_steps: 100,
            checkpoint_every: 1,
            keep_checkpoints: 2,
            reward_bounds: None,
            advantages: AdvantageOptions::default(),
            zero_reward_on_limit: false,
            loss: PolicyLoss::default(),
            loss_parameters: LossParameters::default(),
            loss_aggregation: LossAggregation::default(),
            kl: None,
            substeps: NonZeroUsize::MIN,
            dynamic_sampling: None,
            sampling_parameters: Map::from_iter([("temperature".to_owned(), Value::from(1.0))]),
            evaluation: EvaluationOptions::default(),
            stop: StopRule::default(),
            harvest: None,
        }
    }
}

/// Further tasks in place of those whose rollouts all earned the same (DAPO: Yu et al. 2025).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// How often in a step, at most, as many further tasks are tried as groups are lacking. Then the step is made with the
    /// groups that there are.
    pub max_refills: usize,
}

impl Default for DynamicSampling {
    fn default() -> Self {
        Self { max_refills: 4 }
    }
}

/// What leaving a reference policy costs: the advantage of each sampled token grows by `coefficient * (mean(d) - d)`, where
/// `d` is its logprob under the policy less that under the reference, and the mean is the batch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KlOptions {
    /// Scale of the penalty.
    pub coefficient: f32,
    /// Above 0, a token answers for what follows it too, each token further discounted by this.
    #[serde(default)]
    pub discount: f32,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with.
    #[serde(default)]
    pub reference: Option<String>,
}
