//! The flat table that a config has.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::options::keys::auxiliary_conversations::AuxiliaryConversationOptions;
use crate::options::keys::data_source::{
    DataSource, LossReduction, Packing, ReasoningUse, TrainOn, Truncation, UnusableRows,
};
use crate::options::keys::distillation::DistillationOptions;
use crate::options::keys::evaluation::{EvaluationOptions, FinalWeights, SPIKE_WINDOW, STOP_AFTER_SPIKES, StopRule};
use crate::options::keys::failures::FailureOptions;
use crate::options::keys::harvest::{HarvestOptions, PublishRule};
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::preference::{PairwiseOptions, PreferenceOptions};
use crate::options::keys::schedule::{LearningRateSchedule, UpdateCount};
use crate::options::policy::advantages::{AdvantageOptions, LossAggregation};
use crate::options::policy::dynamic_sampling::DynamicSampling;
use crate::options::policy::kl::KlOptions;
use crate::options::policy::loss::{LossParameters, PolicyLoss};
use crate::options::policy::sampling_schedule::SamplingSchedule;

/// `[trainer]` as a config has it: the keys of all objectives in one flat table. [`TrainerOptions`](crate::options::TrainerOptions) has
/// those of the one that is chosen. Defaults are tinker-cookbook's where it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrainerTable {
    /// What a run learns by: `grpo`, from rewards; `sft`, from conversations that are there; `dpo`, `ipo`, `orpo`, `simpo`, `kto` or `reward_model`, from
    /// comparisons of answers; `on_policy_distillation`, from a teacher's logprobs of what the policy sampled, or
    /// `off_policy_distillation`, from those of conversations.
    pub(crate) objective: ObjectiveName,
    /// Of `sft` and `off_policy_distillation`: the conversations. Of `dpo`, `ipo`, `orpo`, `simpo`, `kto`, `reward_model`: the comparisons.
    pub(crate) source: Option<DataSource>,
    /// Of `sft` and `off_policy_distillation`: which messages of a conversation are trained. `customized` are those that say `"trainable": true`.
    pub(crate) train_on: TrainOn,
    /// Of conversations and comparisons: what becomes of the assistant's reasoning, in `<think>...</think>` at the beginning of a
    /// message or in a field `reasoning_content`. `keep` trains it, `drop` leaves it out, `only` trains it and not the answer.
    pub(crate) reasoning: ReasoningUse,
    /// Of `sft` and `off_policy_distillation`: what the loss is a mean of: of conversations, each the mean over its trained tokens, or of all trained
    /// tokens of a batch.
    pub(crate) reduction: LossReduction,
    /// Of conversations and comparisons: how often every one is read, each time in another order.
    pub(crate) epochs: u64,
    /// Of conversations and comparisons: how many per update; the last one of an epoch has what is left.
    pub(crate) batch_size: usize,
    /// Of conversations and comparisons: tokens that a sequence may have; the model's context unless told otherwise.
    pub(crate) max_tokens: Option<usize>,
    /// Of `sft`: whether conversations of a batch are computed one behind the other in a pass, without padding. With `true` none
    /// sees another. `concatenate` puts as many into a sequence as `max_tokens` hold, and each sees those before it.
    pub(crate) packing: Packing,
    /// Of conversations and comparisons: what becomes of a row that is longer than `max_tokens`, that the renderer cannot write, or of
    /// which nothing would be trained: it ends the run before it begins, or is left out and counted by cause.
    pub(crate) unusable_rows: UnusableRows,
    /// Of conversations and comparisons: what becomes of sequences that are longer than `max_tokens` in place of that: `right` (or `true`) cuts off their end, `left` their beginning.
    pub(crate) truncate: Truncation,
    /// How answers are compared.
    pub(crate) preference: PreferenceOptions,
    /// Each rollout of a group earns its share of wins over the others, in place of what it was rewarded with.
    pub(crate) pairwise: Option<PairwiseOptions>,
    /// Tasks per step; each becomes a group of rollouts.
    pub(crate) groups_per_batch: usize,
    /// Rollouts of one task, whose mean reward is the baseline.
    pub(crate) group_size: usize,
    /// Adam's step size, at its greatest; of comparisons 1e-5 unless told otherwise.
    pub(crate) learning_rate: f64,
    /// How the step size goes on after the warm-up; of `sft` and of comparisons `linear` unless told
    /// otherwise.
    pub(crate) learning_rate_schedule: LearningRateSchedule,
    /// With `linear`, `cosine` and `wsd`: what the step size falls to, as a share of `learning_rate`.
    pub(crate) learning_rate_floor: f64,
    /// With `wsd`: the last updates, over which the step size falls: a whole number, or a share of all updates.
    pub(crate) learning_rate_decay: UpdateCount,
    /// Updates over which the step size grows from 0: a whole number, or a share of all updates.
    pub(crate) warmup: UpdateCount,
    /// Adam's decay of the first moment.
    pub(crate) beta1: f64,
    /// Adam's decay of the second moment.
    pub(crate) beta2: f64,
    /// What Adam adds to the root of the second moment.
    pub(crate) epsilon: f64,
    /// AdamW's decoupled decay: before each update, every trained number is multiplied by `1 - step size * weight_decay`.
    pub(crate) weight_decay: f64,
    /// Greatest norm of the gradient; 0 does not clip.
    pub(crate) gradient_clip_norm: f64,
    /// Updates at most; 100 unless told otherwise, and of `sft` and of comparisons all that
    /// their epochs have.
    pub(crate) max_steps: Option<u64>,
    /// A checkpoint after every this many updates, and after the last; of `sft` and of comparisons 20 unless told
    /// otherwise. Left out beside one of the next two keys, updates make none.
    pub(crate) checkpoint_every: Option<u64>,
    /// A checkpoint once so many tokens have been sampled for the updates since the last one.
    pub(crate) checkpoint_every_tokens: Option<u64>,
    /// A checkpoint after the first update that ends so many seconds after the last one, or after the run's start.
    pub(crate) checkpoint_every_seconds: Option<f64>,
    /// Checkpoints that are kept; older ones are removed once a newer one is recorded, but for the one with the best held-out
    /// score.
    pub(crate) keep_checkpoints: usize,
    /// Older checkpoints are kept too until they are this many seconds old.
    pub(crate) keep_checkpoints_seconds: Option<f64>,
    /// `s3://BUCKET/PREFIX`: each checkpoint is uploaded there too once it is whole, and a run whose directory is gone is
    /// resumed from there.
    pub(crate) checkpoint_url: Option<String>,
    /// The least and the greatest that a rollout may earn in all. One that earned something else is refused by name, and
    /// counts as failed; without bounds, only what is too large to be summed is.
    pub(crate) reward_bounds: Option<[f64; 2]>,
    /// What becomes of rollouts that failed.
    pub(crate) failures: FailureOptions,
    /// How rewards become advantages.
    pub(crate) advantages: AdvantageOptions,
    /// Whether a rollout whose last answer was cut off by the limit of its tokens earns 0 at most, so that running into the
    /// limit never pays.
    pub(crate) zero_reward_on_limit: bool,
    /// What is made of advantages and logprobs.
    pub(crate) loss: PolicyLoss,
    /// The loss's numbers, where they are not its usual ones.
    pub(crate) loss_parameters: LossParameters,
    /// What the losses of a step's tokens are divided by.
    pub(crate) loss_aggregation: LossAggregation,
    /// Of `loss_aggregation = "rollout_sum"`: what the sum of a rollout's token losses is divided by too, such as the greatest length
    /// of an answer (Dr. GRPO's constant: Liu et al. 2025); 1 unless told otherwise.
    pub(crate) rollout_length: Option<usize>,
    /// What leaving a reference policy costs; without it, nothing does.
    pub(crate) kl: Option<KlOptions>,
    /// Of distillation: the teacher.
    pub(crate) distillation: Option<DistillationOptions>,
    /// Optimizer steps that a batch is split into, between groups, never through one.
    pub(crate) substeps: NonZeroUsize,
    /// When the rollouts of a step are run.
    pub(crate) schedule: SamplingSchedule,
    /// Least and greatest ratio of a token's probability under the weights before the step to that when it was sampled; what is
    /// outside teaches nothing. Without it, every token does.
    pub(crate) importance_mask: Option<[f32; 2]>,
    /// What the mean entropy of the distributions that trained tokens are predicted by is worth, in nats of the loss: above 0, an update
    /// keeps the policy from certainty. Its gradient is exact.
    pub(crate) entropy_bonus: f64,
    /// The share of a batch's trained tokens that teaches: those at which the policy's exact entropy is greatest (Wang et al. 2025), such
    /// as 0.2. Without it, every token does.
    pub(crate) top_entropy: Option<f64>,
    /// Further tasks in place of those whose groups have nothing to teach; without it, a step makes do with what is left.
    pub(crate) dynamic_sampling: Option<DynamicSampling>,
    /// What agents are told to send with their calls, in the `main_llm` resource. Calls that leave out `temperature` get this
    /// one, and tokens are trained at it. What is sampled at another temperature or with tokens cut off is not trained.
    pub(crate) sampling_parameters: Map<String, Value>,
    /// When and how the held-out tasks are scored; of `sft` and of comparisons what is held out of them, every 10 updates unless
    /// told otherwise.
    pub(crate) evaluation: EvaluationOptions,
    /// When to stop before `max_steps`; of `sft` and of comparisons by `patience` alone.
    pub(crate) stop: StopRule,
    /// Which weights are the run's at its end: `last`, or those with the `best` held-out score. They are put behind the model, and
    /// are what `model export`, `chat` and `eval` take of the run. With `best` each evaluation has a checkpoint.
    pub(crate) final_weights: FinalWeights,
    /// An optimizer step whose gradient's norm is above so many times the median of those before it, or no number, is left out;
    /// without it, none is, and a norm that is no number ends the run.
    pub(crate) spike_factor: Option<f64>,
    /// Updates whose norms the median is of, the last ones that left no step out. The first eight have none to be held against.
    pub(crate) spike_window: usize,
    /// Updates one after another that may leave out every step; after so many the run ends with an error. 0 never ends it.
    pub(crate) stop_after_spikes: u64,
    /// Updates one after another that may have nothing to learn from, as where every group's rewards are equal; after so
    /// many the run ends with an error. 0 never ends it.
    pub(crate) stop_without_gradient: u64,
    /// Whether the run's directory keeps, for each update, what became of every token that it trained: its advantage, its logprob
    /// under the weights that the update began with, the entropy of what predicts it if the model host tells it, and whether it was
    /// masked or clipped. Thirteen bytes a token, nine without entropies.
    pub(crate) record_tokens: bool,
    /// Conversations that are learnt from in each update beside the rollouts.
    pub(crate) conversations: Option<AuxiliaryConversationOptions>,
    /// Learn from whatever rewarded rollouts there are, in place of tasks.
    pub(crate) harvest: Option<HarvestOptions>,
    /// Of a harvest: which new weights are put behind the model. Unless told otherwise `not_worse` with `harvest.validation`, and
    /// `within_bounds` without it.
    pub(crate) publish_if: Option<PublishRule>,
    /// With `publish_if = "within_bounds"`: nats a token that new weights may be away from those that sampled what they learnt
    /// from, in the mean (Schulman's k3 estimate of the KL divergence).
    pub(crate) publish_max_kl: f64,
}

impl Default for TrainerTable {
    fn default() -> Self {
        Self {
            objective: ObjectiveName::default(),
            source: None,
            train_on: TrainOn::default(),
            reasoning: ReasoningUse::default(),
            reduction: LossReduction::default(),
            epochs: 1,
            batch_size: 64,
            max_tokens: None,
            packing: Packing::default(),
            unusable_rows: UnusableRows::default(),
            truncate: Truncation::default(),
            preference: PreferenceOptions::default(),
            pairwise: None,
            groups_per_batch: 16,
            group_size: 8,
            learning_rate: 1e-4,
            learning_rate_schedule: LearningRateSchedule::default(),
            learning_rate_floor: 0.0,
            learning_rate_decay: UpdateCount::DECAY,
            warmup: UpdateCount::Updates(0),
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.0,
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
            rollout_length: None,
            kl: None,
            distillation: None,
            substeps: NonZeroUsize::MIN,
            schedule: SamplingSchedule::default(),
            importance_mask: None,
            entropy_bonus: 0.0,
            top_entropy: None,
            dynamic_sampling: None,
            sampling_parameters: Map::from_iter([("temperature".to_owned(), Value::from(1.0))]),
            evaluation: EvaluationOptions::default(),
            stop: StopRule::default(),
            final_weights: FinalWeights::default(),
            spike_factor: None,
            spike_window: SPIKE_WINDOW,
            stop_after_spikes: STOP_AFTER_SPIKES,
            stop_without_gradient: 20,
            record_tokens: true,
            conversations: None,
            harvest: None,
            publish_if: None,
            publish_max_kl: 0.5,
        }
    }
}
