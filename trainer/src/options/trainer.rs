use std::num::NonZeroUsize;

use fulgurite_backends::AdamParameters;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::advantages::{AdvantageOptions, LossAggregation};
use super::conversations_beside::ConversationsBeside;
use super::distillation::DistillationOptions;
use super::dynamic_sampling::DynamicSampling;
use super::evaluation::{EvaluationOptions, StopRule};
use super::failures::FailureOptions;
use super::harvest::{HarvestOptions, PublishRule};
use super::kl::KlOptions;
use super::loss::{LossParameters, PolicyLoss};
use super::objective_name::ObjectiveName;
use super::preference::{PairwiseOptions, PreferenceOptions};
use super::rewards::RewardRules;
use super::schedule::LearningRateSchedule;
use super::sft::{DataSource, LossReduction, TrainOn, UnusableRows, Validation};

/// How a model is trained. Defaults are tinker-cookbook's where it has one. Keys that an objective does not read are refused
/// where they are written ([`check_keys`](Self::check_keys)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainerOptions {
    /// What a run learns by: `grpo`, from rewards; `sft`, from conversations that are there; `dpo`, `ipo`, `orpo`, `kto` or `reward_model`, from
    /// comparisons of answers; `on_policy_distillation`, from a teacher's logprobs of what the policy sampled, or
    /// `off_policy_distillation`, from those of conversations.
    pub objective: ObjectiveName,
    /// Of `sft` and `off_policy_distillation`: the conversations. Of `dpo`, `ipo`, `orpo`, `kto`, `reward_model`: the comparisons.
    pub source: Option<DataSource>,
    /// Of `sft` and `off_policy_distillation`: which messages of a conversation are trained. `customized` are those that say `"trainable": true`.
    pub train_on: TrainOn,
    /// Of `sft` and `off_policy_distillation`: what the loss is a mean of: of conversations, each the mean over its trained tokens, or of all trained
    /// tokens of a batch.
    pub reduction: LossReduction,
    /// Of conversations and comparisons: how often every one is read, each time in another order.
    pub epochs: u64,
    /// Of conversations and comparisons: how many per update; the last one of an epoch has what is left.
    pub batch_size: usize,
    /// Of conversations and comparisons: tokens that a sequence may have; the model's context unless told otherwise.
    pub max_tokens: Option<usize>,
    /// Of `sft`: whether conversations of a batch are put behind each other, as many as `max_tokens` hold, so that the model
    /// reads fewer sequences; a conversation then sees those before it.
    pub packing: bool,
    /// Of conversations and comparisons: what becomes of a row that is longer than `max_tokens`, that the renderer cannot write, or of
    /// which nothing would be trained: it ends the run before it begins, or is left out and counted by cause.
    pub unusable_rows: UnusableRows,
    /// Of conversations and comparisons: whether sequences that are longer than `max_tokens` are cut off there, on the right, in place of that.
    pub truncate: bool,
    /// How answers are compared.
    pub preference: PreferenceOptions,
    /// Each rollout of a group earns its share of wins over the others, in place of what it was rewarded with.
    pub pairwise: Option<PairwiseOptions>,
    /// Tasks per step; each becomes a group of rollouts.
    pub groups_per_batch: usize,
    /// Rollouts of one task, whose mean reward is the baseline.
    pub group_size: usize,
    /// Adam's step size, at its greatest; of comparisons 1e-5 unless told otherwise.
    pub learning_rate: f64,
    /// How the step size goes on after the warm-up; of `sft` and of comparisons `linear` unless told
    /// otherwise.
    pub learning_rate_schedule: LearningRateSchedule,
    /// Updates over which the step size grows from 0.
    pub warmup: u64,
    /// Adam's decay of the first moment.
    pub beta1: f64,
    /// Adam's decay of the second moment.
    pub beta2: f64,
    /// Greatest norm of the gradient; 0 does not clip.
    pub gradient_clip_norm: f64,
    /// Updates at most; 100 unless told otherwise, and of `sft` and of comparisons all that
    /// their epochs have.
    pub max_steps: Option<u64>,
    /// A checkpoint after every this many updates, and after the last; of `sft` and of comparisons 20 unless told
    /// otherwise. Left out beside one of the next two keys, updates make none.
    pub checkpoint_every: Option<u64>,
    /// A checkpoint once so many tokens have been sampled for the updates since the last one.
    pub checkpoint_every_tokens: Option<u64>,
    /// A checkpoint after the first update that ends so many seconds after the last one, or after the run's start.
    pub checkpoint_every_seconds: Option<f64>,
    /// Checkpoints that are kept; older ones are removed once a newer one is recorded, but for the one with the best held-out
    /// score.
    pub keep_checkpoints: usize,
    /// Older checkpoints are kept too until they are this many seconds old.
    pub keep_checkpoints_seconds: Option<f64>,
    /// `s3://BUCKET/PREFIX`: each checkpoint is uploaded there too once it is whole, and a run whose directory is gone is
    /// resumed from there.
    pub checkpoint_url: Option<String>,
    /// The least and the greatest that a rollout may earn in all. One that earned something else is refused by name, and
    /// counts as failed; without bounds, only what is too large to be summed is.
    pub reward_bounds: Option<[f64; 2]>,
    /// What becomes of rollouts that failed.
    pub failures: FailureOptions,
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
    /// Of distillation: the teacher.
    pub distillation: Option<DistillationOptions>,
    /// Optimizer steps that a batch is split into, between groups, never through one.
    pub substeps: NonZeroUsize,
    /// When the rollouts of a step are run.
    pub schedule: SamplingSchedule,
    /// Least and greatest ratio of a token's probability under the weights before the step to that when it was sampled; what is
    /// outside teaches nothing. Without it, every token does.
    pub importance_mask: Option<[f32; 2]>,
    /// Further tasks in place of those whose groups have nothing to teach; without it, a step makes do with what is left.
    pub dynamic_sampling: Option<DynamicSampling>,
    /// What agents are told to send with their calls, in the `main_llm` resource. Tokens that are sampled from a
    /// modified distribution are not trained.
    pub sampling_parameters: Map<String, Value>,
    /// When and how the held-out tasks are scored; of `sft` and of comparisons what is held out of them, every 10 updates unless
    /// told otherwise.
    pub evaluation: EvaluationOptions,
    /// When to stop before `max_steps`.
    pub stop: StopRule,
    /// Updates one after another that may have nothing to learn from, as where every group's rewards are equal; after so
    /// many the run ends with an error. 0 never ends it.
    pub stop_without_gradient: u64,
    /// Whether the run's directory keeps, for each update, what became of every token that it trained: its advantage, its logprob
    /// under the weights that the update began with, the entropy of what predicts it if the model host tells it, and whether it was
    /// masked or clipped. Thirteen bytes a token, nine without entropies.
    pub record_tokens: bool,
    /// Conversations that are learnt from in each update beside the rollouts.
    pub conversations: Option<ConversationsBeside>,
    /// Learn from whatever rewarded rollouts there are, in place of tasks.
    pub harvest: Option<HarvestOptions>,
    /// Of a harvest: which new weights are put behind the model. Unless told otherwise `not_worse` with `harvest.validation`, and
    /// `within_bounds` without it.
    pub publish_if: Option<PublishRule>,
    /// With `publish_if = "within_bounds"`: nats a token that new weights may be away from those that sampled what they learnt
    /// from, in the mean (Schulman's k3 estimate of the KL divergence).
    pub publish_max_kl: f64,
}

impl Default for TrainerOptions {
    fn default() -> Self {
        Self {
            objective: ObjectiveName::default(),
            source: None,
            train_on: TrainOn::default(),
            reduction: LossReduction::default(),
            epochs: 1,
            batch_size: 64,
            max_tokens: None,
            packing: false,
            unusable_rows: UnusableRows::default(),
            truncate: false,
            preference: PreferenceOptions::default(),
            pairwise: None,
            groups_per_batch: 16,
            group_size: 8,
            learning_rate: 1e-4,
            learning_rate_schedule: LearningRateSchedule::default(),
            warmup: 0,
            beta1: 0.9,
            beta2: 0.95,
            gradient_clip_norm: 1.0,
            max_steps: None,
            checkpoint_every: Some(1),
            checkpoint_every_tokens: None,
            checkpoint_every_seconds: None,
            keep_checkpoints: 2,
            keep_checkpoints_seconds: None,
            checkpoint_url: None,
            reward_bounds: None,
            failures: FailureOptions::default(),
            advantages: AdvantageOptions::default(),
            zero_reward_on_limit: false,
            loss: PolicyLoss::default(),
            loss_parameters: LossParameters::default(),
            loss_aggregation: LossAggregation::default(),
            kl: None,
            distillation: None,
            substeps: NonZeroUsize::MIN,
            schedule: SamplingSchedule::default(),
            importance_mask: None,
            dynamic_sampling: None,
            sampling_parameters: Map::from_iter([("temperature".to_owned(), Value::from(1.0))]),
            evaluation: EvaluationOptions::default(),
            stop: StopRule::default(),
            stop_without_gradient: 20,
            record_tokens: true,
            conversations: None,
            harvest: None,
            publish_if: None,
            publish_max_kl: 0.5,
        }
    }
}

impl TrainerOptions {
    /// Which new weights are put behind the model: what is said, or else what suits whoever calls it.
    pub fn publish_rule(&self) -> PublishRule {
        self.publish_if.unwrap_or(match &self.harvest {
            Some(harvest) if harvest.validation.is_some() => PublishRule::NotWorse,
            Some(_) => PublishRule::WithinBounds,
            None => PublishRule::Always,
        })
    }

    /// What the rewards of a run's rollouts are held against, and those of an evaluation of it.
    pub fn reward_rules(&self) -> RewardRules {
        RewardRules {
            bounds: self.reward_bounds,
            zero_on_limit: self.zero_reward_on_limit,
            agent_failed: self.failures.agent_reward,
        }
    }

    /// Its step size is the greatest of the schedule.
    pub(crate) fn optimizer(&self) -> AdamParameters {
        AdamParameters {
            learning_rate: self.learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            gradient_clip_norm: self.gradient_clip_norm,
            ..AdamParameters::default()
        }
    }

    /// Updates that the epochs of so many rows have, or as many as the limit leaves of them.
    pub(crate) fn updates_of(&self, rows: u64) -> u64 {
        let updates = rows.div_ceil(self.batch_size as u64).saturating_mul(self.epochs);
        self.max_steps.map_or(updates, |most| most.min(updates))
    }

    /// How many of a teacher's likeliest tokens a place is taught.
    pub(crate) fn top_k(&self) -> usize {
        self.distillation.as_ref().map_or_else(|| DistillationOptions::default().top_k, |options| options.top_k)
    }

    /// The share of the rows that is scored and not trained, where it is one.
    pub(crate) fn validation_share(&self) -> Option<f64> {
        match self.source.as_ref()?.validation.as_ref()? {
            Validation::Share(share) => Some(*share),
            Validation::File(_) => None,
        }
    }
}

/// When the rollouts of a step are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SamplingSchedule {
    /// Once the weights that they are to train are in place: agents and learner wait for each other.
    #[default]
    Sync,
    /// Ahead, while the learner computes.
    Async {
        /// Updates, at most, that the weights which sampled a token may be behind those that it trains; 0 is as `sync`.
        max_staleness: u64,
    },
    /// For so many parts of a batch, each of whole groups: the learner computes on those that have ended while agents play the
    /// others, and takes one step behind the last.
    Minibatches(NonZeroUsize),
}

impl SamplingSchedule {
    /// Updates, at most, that the weights which sampled a token may be behind those that it trains.
    pub fn max_staleness(self) -> u64 {
        match self {
            Self::Sync | Self::Minibatches(_) => 0,
            Self::Async { max_staleness } => max_staleness,
        }
    }
}
