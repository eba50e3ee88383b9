//! What objectives have that learn from rollouts.

use std::num::NonZeroUsize;

use fulgurite_backends::LossFunction;
use serde_json::{Map, Value};

use super::common::Usual;
use crate::TrainError;
use crate::options::flat::part::{OptionsPart, part};
use crate::options::flat::table::TrainerTable;
use crate::options::keys::auxiliary_conversations::AuxiliaryConversationOptions;
use crate::options::keys::data_source::{ConversationForm, check_form};
use crate::options::keys::evaluation::{EvaluationOptions, StopRule};
use crate::options::keys::failures::FailureOptions;
use crate::options::keys::refusal::{least, refuse, wrong};
use crate::options::keys::schedule::LearningRateSchedule;
use crate::options::policy::advantages::{
    AdvantageOptions, Baseline, CountedRollouts, LossAggregation, PerCall, Spread,
};
use crate::options::policy::check_sampling::{check_sampling, temperature_of};
use crate::options::policy::entropy::EntropyBonus;
use crate::options::policy::kl::{KlOptions, KlPlace};
use crate::options::policy::loss::{LossParameters, PolicyLoss};
use crate::options::policy::rewards::RewardRules;
use crate::options::policy::sampling_schedule::SamplingSchedule;

/// Updates at most of a run that is told of none, and that has no epochs.
pub(crate) const MAX_STEPS: u64 = 100;

/// Defaults of objectives that learn from rollouts.
pub(crate) const USUAL: Usual = Usual {
    learning_rate: 1e-4,
    learning_rate_schedule: LearningRateSchedule::Constant,
    max_steps: Some(MAX_STEPS),
    checkpoint_every: 1,
    evaluation_every: 1,
};

part! {
    /// Keys of `[trainer]` of objectives that learn from rollouts.
    RolloutOptions has {
        conversations: Option<AuxiliaryConversationOptions>,
        groups_per_batch: usize,
        group_size: usize,
        reward_bounds: Option<[f64; 2]>,
        advantages: AdvantageOptions,
        failures: FailureOptions,
        zero_reward_on_limit: bool,
        loss: PolicyLoss,
        loss_parameters: LossParameters,
        loss_aggregation: LossAggregation,
        rollout_length: Option<usize>,
        schedule: SamplingSchedule,
        importance_mask: Option<[f32; 2]>,
        entropy_bonus: EntropyBonus,
        top_entropy: Option<f64>,
        kl: Option<KlOptions>,
        substeps: NonZeroUsize,
        sampling_parameters: Map<String, Value>,
        evaluation: EvaluationOptions,
        stop: StopRule,
        stop_without_gradient: u64,
        record_tokens: bool,
    }
}

impl Default for RolloutOptions {
    fn default() -> Self {
        Self::take(&TrainerTable::default())
    }
}

impl RolloutOptions {
    /// What the rewards of a run's rollouts are held against, and those of an evaluation of it.
    pub fn reward_rules(&self) -> RewardRules {
        RewardRules {
            bounds: self.reward_bounds,
            zero_on_limit: self.zero_reward_on_limit,
            agent_failed: self.failures.agent_reward,
        }
    }

    /// At which agents sample, and what they sampled is trained.
    pub fn temperature(&self) -> f32 {
        temperature_of(&self.sampling_parameters)
    }

    /// The loss with its numbers.
    ///
    /// # Errors
    /// Names the number that the loss has not, lacks, or that cannot be.
    pub fn loss_function(&self) -> Result<LossFunction, TrainError> {
        self.loss_parameters.of(self.loss)
    }

    /// Refuses groups that are too small to learn from.
    pub(crate) fn check_groups(&self, are_compared: bool) -> Result<(), TrainError> {
        let (fewest, why) = if are_compared && self.advantages.baseline.is_of_group() {
            (2, "its mean is what each is measured against")
        } else {
            (1, "a task needs a rollout")
        };
        least("[trainer] group_size", self.group_size as u64, fewest, why)
    }

    /// Refuses what cannot work, whatever else the objective has.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        self.check_advantages()?;
        self.check_failures()?;
        self.check_conversations()?;
        self.check_importance_mask()?;
        self.entropy_bonus.check()?;
        self.check_top_entropy()?;
        least("[trainer] groups_per_batch", self.groups_per_batch as u64, 1, "a step needs a task")?;
        check_bounds(self.reward_bounds)?;
        self.loss_function()?;
        self.kl.as_ref().map_or(Ok(()), KlOptions::check)?;
        least("[trainer] evaluation.every", self.evaluation.every, 1, "1 is before each update")?;
        let samples = self.evaluation.samples_per_task as u64;
        least("[trainer] evaluation.samples_per_task", samples, 1, "a task that is not tried has no score")?;
        self.stop.check()?;
        check_sampling(&self.sampling_parameters)
    }

    fn check_advantages(&self) -> Result<(), TrainError> {
        let AdvantageOptions {
            baseline,
            normalize_by_standard_deviation: normalizes,
            standard_deviation_of,
            counted,
            per_call,
        } = self.advantages;
        let key = "[trainer] advantages.standard_deviation_of";
        if standard_deviation_of == Spread::Batch && !normalizes {
            return refuse(key, "batch", "nothing is divided without normalize_by_standard_deviation = true");
        }
        if standard_deviation_of == Spread::Group && normalizes && !baseline.is_of_group() {
            return refuse(key, "group", "must be batch: the baseline is not of the group either");
        }
        if counted != CountedRollouts::Trained && baseline == Baseline::None && !normalizes {
            let message = "changes nothing where no mean is taken off and nothing is divided: leave it out";
            return wrong("[trainer] advantages.counted", message);
        }
        per_call.map_or(Ok(()), PerCall::check)?;
        if let Some(length) = self.rollout_length {
            let key = "[trainer] rollout_length";
            if self.loss_aggregation != LossAggregation::RolloutSum {
                return wrong(key, "is of loss_aggregation = \"rollout_sum\": leave it out");
            }
            least(key, length as u64, 1, "a rollout's sum is divided by it")?;
        }
        if self.loss == PolicyLoss::Dro && self.loss_aggregation != LossAggregation::Sum {
            let message =
                "must be sum with the loss `dro`, whose beta would not be divided; lower learning_rate instead";
            return wrong("[trainer] loss_aggregation", message);
        }
        Ok(())
    }

    fn check_failures(&self) -> Result<(), TrainError> {
        let FailureOptions { least_members, agent_reward, .. } = self.failures;
        if !(0.0..=1.0).contains(&least_members) {
            return refuse("[trainer] failures.least_members", least_members, "must be a share from 0 to 1");
        }
        let Some(reward) = agent_reward else { return Ok(()) };
        let key = "[trainer] failures.agent_reward";
        if !reward.is_finite() {
            return refuse(key, reward, "must be a finite number");
        }
        match self.reward_bounds {
            Some([low, high]) if !(low..=high).contains(&reward) => {
                refuse(key, reward, &format!("must be in reward_bounds = [{low}, {high}]"))
            }
            _ => Ok(()),
        }
    }

    fn check_conversations(&self) -> Result<(), TrainError> {
        let Some(conversations) = &self.conversations else { return Ok(()) };
        let AuxiliaryConversationOptions { weight, batch_size, max_tokens, form, train_on, .. } = conversations;
        check_form("[trainer] conversations.train_on", *form, *train_on)?;
        if *form == ConversationForm::SoftTargets {
            let message = "is \"soft_targets\", from which objective = \"off_policy_distillation\" learns";
            return wrong("[trainer] conversations.form", message);
        }
        if !weight.is_finite() || *weight <= 0.0 {
            return refuse("[trainer] conversations.weight", weight, "must be a finite number above 0");
        }
        let key = "[trainer] conversations";
        least(&format!("{key}.batch_size"), *batch_size as u64, 1, "an update needs a conversation")?;
        least(&format!("{key}.max_tokens"), max_tokens.unwrap_or(2) as u64, 2, "one to read and one to predict")
    }

    fn check_top_entropy(&self) -> Result<(), TrainError> {
        let key = "[trainer] top_entropy";
        match self.top_entropy {
            Some(share) if !(share > 0.0 && share <= 1.0) => refuse(key, share, "must be above 0 and at most 1"),
            Some(_) if self.loss == PolicyLoss::Dro => {
                wrong(key, "is not for the loss `dro`, which is not 0 where an advantage is: leave one of them out")
            }
            _ => Ok(()),
        }
    }

    fn check_importance_mask(&self) -> Result<(), TrainError> {
        match self.importance_mask {
            Some([low, high]) if !(low.is_finite() && high.is_finite() && 0.0 <= low && low < high) => {
                let message = "must be two finite ratios from 0 up, the lower one first, such as [0.5, 2.0]";
                refuse("[trainer] importance_mask", format!("[{low}, {high}]"), message)
            }
            _ => Ok(()),
        }
    }

    /// What depends on the whole batch cannot be known of a part: of these keys, and of the objective's `own`.
    pub(crate) fn check_minibatches(&self, own: &[(&str, bool)]) -> Result<(), TrainError> {
        let SamplingSchedule::Minibatches(_) = self.schedule else { return Ok(()) };
        let in_reward = self.kl.as_ref().is_some_and(|kl| kl.place == KlPlace::Reward);
        let shared = [
            ("substeps", self.substeps.get() > 1),
            ("importance_mask", self.importance_mask.is_some()),
            ("entropy_bonus", self.entropy_bonus.is_set()),
            ("top_entropy", self.top_entropy.is_some()),
            ("advantages.baseline", !self.advantages.baseline.is_of_group()),
            ("advantages.standard_deviation_of", self.advantages.standard_deviation_of == Spread::Batch),
            ("loss_aggregation", self.loss_aggregation != LossAggregation::Sum),
            ("kl.in = \"reward\"", in_reward),
        ];
        let Some((other, _)) = own.iter().chain(&shared).find(|(_, is_set)| *is_set) else { return Ok(()) };
        let message =
            format!("cannot be in minibatches with {other}, which is of a whole batch: leave one of them out");
        wrong("[trainer] schedule", message)
    }
}

impl PerCall {
    fn check(self) -> Result<(), TrainError> {
        let key = "[trainer] advantages.per_call";
        if !(0.0..=1.0).contains(&self.discount) {
            return refuse(&format!("{key}.discount"), self.discount, "must be from 0 to 1");
        }
        if !self.rollout_weight.is_finite() {
            return refuse(&format!("{key}.rollout_weight"), self.rollout_weight, "must be a finite number");
        }
        Ok(())
    }
}

impl StopRule {
    fn check(&self) -> Result<(), TrainError> {
        least("[trainer] stop.in_a_row", self.in_a_row as u64, 1, "1 is a single evaluation")?;
        let thresholds = self.held_out.iter().map(|(name, least)| (format!("held_out.{name}"), *least));
        let reward = self.held_out_reward.map(|least| ("held_out_reward".to_owned(), least));
        for (name, threshold) in reward.into_iter().chain(thresholds) {
            if !threshold.is_finite() {
                return refuse(&format!("[trainer] stop.{name}"), threshold, "must be a finite number");
            }
        }
        Ok(())
    }
}

fn check_bounds(bounds: Option<[f64; 2]>) -> Result<(), TrainError> {
    match bounds {
        Some([low, high]) if !(low.is_finite() && high.is_finite() && low < high) => {
            let written = format!("[{low}, {high}]");
            refuse("[trainer] reward_bounds", written, "must be two finite numbers, the lower one first")
        }
        _ => Ok(()),
    }
}
