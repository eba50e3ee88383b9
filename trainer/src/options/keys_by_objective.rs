//! Which keys of `[trainer]` each objective reads, and what they are where nobody writes them.

use super::objective_name::ObjectiveName;
use super::schedule::LearningRateSchedule;
use super::trainer::TrainerOptions;
use crate::TrainError;

/// Updates at most of a run that is told of none, and that has no epochs.
const MAX_STEPS: u64 = 100;

/// Keys of `[trainer]` that every objective reads.
const COMMON: [&str; 14] = [
    "objective",
    "learning_rate",
    "learning_rate_schedule",
    "warmup",
    "beta1",
    "beta2",
    "gradient_clip_norm",
    "max_steps",
    "checkpoint_every",
    "checkpoint_every_tokens",
    "checkpoint_every_seconds",
    "keep_checkpoints",
    "keep_checkpoints_seconds",
    "checkpoint_url",
];

/// Keys of objectives that learn from rollouts.
const OF_ROLLOUTS: [&str; 20] = [
    "conversations",
    "groups_per_batch",
    "group_size",
    "reward_bounds",
    "advantages",
    "failures",
    "zero_reward_on_limit",
    "loss",
    "loss_parameters",
    "loss_aggregation",
    "schedule",
    "importance_mask",
    "kl",
    "substeps",
    "sampling_parameters",
    "evaluation",
    "stop",
    "stop_without_gradient",
    "record_tokens",
    "evaluation.samples_per_task",
];
/// Keys that are read by one objective alone.
const OF_GRPO: [&str; 5] = ["dynamic_sampling", "harvest", "pairwise", "publish_if", "publish_max_kl"];
const OF_ON_POLICY_DISTILLATION: [&str; 11] = [
    "distillation.teacher",
    "distillation.task_tag",
    "distillation.teachers",
    "distillation.untaught",
    "distillation.teacher_system",
    "distillation.refresh_every",
    "distillation.loss",
    "distillation.top_k",
    "distillation.coefficient",
    "distillation.discount",
    "distillation.reward_coefficient",
];
const OF_OFF_POLICY_DISTILLATION: [&str; 2] = ["distillation.teacher", "distillation.top_k"];
const OF_SFT: [&str; 1] = ["packing"];
/// Keys of objectives that learn from conversations.
const OF_CONVERSATIONS: [&str; 9] = [
    "source",
    "train_on",
    "reduction",
    "epochs",
    "batch_size",
    "max_tokens",
    "unusable_rows",
    "truncate",
    "evaluation.every",
];

/// Keys of every objective that compares answers.
const OF_COMPARISONS: [&str; 7] =
    ["source", "epochs", "batch_size", "max_tokens", "unusable_rows", "truncate", "evaluation.every"];
const OF_DPO: [&str; 3] = ["preference.beta", "preference.reference", "preference.label_smoothing"];
const OF_IPO: [&str; 2] = ["preference.beta", "preference.reference"];
const OF_ORPO: [&str; 1] = ["preference.beta"];
const OF_KTO: [&str; 4] =
    ["preference.beta", "preference.reference", "preference.desirable_weight", "preference.undesirable_weight"];

impl ObjectiveName {
    fn reads(self, key: &str) -> bool {
        let own: [&[&str]; 2] = match self {
            Self::Grpo => [&OF_ROLLOUTS, &OF_GRPO],
            Self::Sft => [&OF_CONVERSATIONS, &OF_SFT],
            Self::OffPolicyDistillation => [&OF_CONVERSATIONS, &OF_OFF_POLICY_DISTILLATION],
            Self::OnPolicyDistillation => [&OF_ROLLOUTS, &OF_ON_POLICY_DISTILLATION],
            Self::Dpo => [&OF_COMPARISONS, &OF_DPO],
            Self::Ipo => [&OF_COMPARISONS, &OF_IPO],
            Self::Orpo => [&OF_COMPARISONS, &OF_ORPO],
            Self::RewardModel => [&OF_COMPARISONS, &[]],
            Self::Kto => [&OF_COMPARISONS, &OF_KTO],
        };
        let mut known = COMMON.iter().chain(own.into_iter().flatten());
        known.any(|known| key.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }
}

impl TrainerOptions {
    /// Refuses a key that is written, and that the objective does not read. `written` has keys below tables with dots.
    ///
    /// # Errors
    /// [`TrainError::Option`] with the key's name.
    pub fn check_keys<'k>(&self, written: impl IntoIterator<Item = &'k str>) -> Result<(), TrainError> {
        match written.into_iter().find(|key| !self.objective.reads(key)) {
            None => Ok(()),
            Some(key) => {
                let others = ObjectiveName::ALL.into_iter().find(|other| other.reads(key));
                let whose = others.map_or(String::new(), |other| format!(", but of \"{}\"", other.as_str()));
                let message = format!("is no key of objective = \"{}\"{whose}: leave it out", self.objective.as_str());
                Err(TrainError::Option { key: format!("[trainer] {key}"), message })
            }
        }
    }

    /// Puts the objective's own defaults in the place of those of keys that are not among the `written`.
    pub fn set_defaults(&mut self, written: &[String]) {
        let is_written = |key: &str| written.iter().any(|written| written == key);
        if !is_written("checkpoint_every") {
            let otherwise = self.checkpoint_every_tokens.is_some() || self.checkpoint_every_seconds.is_some();
            let usual = if self.objective.learns_from_data() { 20 } else { 1 };
            self.checkpoint_every = (!otherwise).then_some(usual);
        }
        match self.objective {
            ObjectiveName::Grpo | ObjectiveName::OnPolicyDistillation => self.max_steps = Some(self.max_steps()),
            name => {
                if name.compares() && !is_written("learning_rate") {
                    self.learning_rate = 1e-5;
                }
                if !is_written("learning_rate_schedule") {
                    self.learning_rate_schedule = LearningRateSchedule::Linear;
                }
                if !is_written("evaluation.every") {
                    self.evaluation.every = 10;
                }
            }
        }
    }

    /// Updates at most of a run without epochs.
    pub(crate) fn max_steps(&self) -> u64 {
        self.max_steps.unwrap_or(MAX_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_belongs_to_an_objective() {
        let options = json!(TrainerOptions::default());
        for key in options.as_object().unwrap().keys() {
            let readers = ObjectiveName::ALL.into_iter().filter(|name| name.reads(key)).count();
            assert!(readers > 0 || ["evaluation", "distillation", "preference"].contains(&key.as_str()), "{key}");
        }
    }

    #[test]
    fn a_key_of_another_objective_is_refused_by_name() {
        let sft = TrainerOptions { objective: ObjectiveName::Sft, ..TrainerOptions::default() };
        let refused = |options: &TrainerOptions, key| options.check_keys([key]).unwrap_err().to_string();
        assert_eq!(
            refused(&sft, "group_size"),
            "[trainer] group_size is no key of objective = \"sft\", but of \"grpo\": leave it out"
        );
        assert!(refused(&sft, "evaluation.samples_per_task").contains("but of \"grpo\""));
        assert!(refused(&TrainerOptions::default(), "train_on").contains("but of \"sft\""));
        let taught = TrainerOptions { objective: ObjectiveName::OnPolicyDistillation, ..TrainerOptions::default() };
        assert!(refused(&taught, "harvest").contains("but of \"grpo\""));
        assert!(refused(&sft, "distillation.teacher").contains("but of \"on_policy_distillation\""));
        let off_policy =
            TrainerOptions { objective: ObjectiveName::OffPolicyDistillation, ..TrainerOptions::default() };
        assert!(refused(&off_policy, "distillation.discount").contains("but of \"on_policy_distillation\""));
        assert!(refused(&off_policy, "packing").contains("but of \"sft\""));
        off_policy.check_keys(["distillation.top_k", "source.conversations", "evaluation.every"]).unwrap();
        taught.check_keys(["distillation.teacher", "group_size", "kl.coefficient"]).unwrap();
        sft.check_keys(["source.conversations", "learning_rate", "evaluation.every"]).unwrap();
        TrainerOptions::default().check_keys(["harvest.max_staleness", "evaluation.every", "max_steps"]).unwrap();
    }
}
