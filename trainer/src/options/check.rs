//! What the numbers of a config must be, looked at before anything is made or run.

use super::advantages::{AdvantageOptions, LossAggregation, PerCall, Spread};
use super::check_checkpoints::{check_checkpoints, check_publishing};
use super::check_sampling::check_sampling;
use super::conversations_beside::ConversationsBeside;
use super::distillation::{DistillationLoss, Untaught};
use super::evaluation::StopRule;
use super::failures::FailureOptions;
use super::harvest::HarvestOptions;
use super::kl::{KlOptions, KlPlace};
use super::loss::PolicyLoss;
use super::objective_name::ObjectiveName;
use super::refusal::{least, refuse};
use super::sft::{ConversationForm, DataSource, TrainOn, Validation};
use super::supervised::SupervisedOptions;
use super::trainer::{SamplingSchedule, TrainerOptions};
use crate::TrainError;

impl TrainerOptions {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), TrainError> {
        adam("[trainer] learning_rate", self.learning_rate)?;
        share("[trainer] beta1", self.beta1)?;
        share("[trainer] beta2", self.beta2)?;
        clip("[trainer] gradient_clip_norm", self.gradient_clip_norm)?;
        check_checkpoints(self)?;
        least("[trainer] evaluation.every", self.evaluation.every, 1, "1 is before each update")?;
        match self.objective {
            ObjectiveName::Grpo => self.check_grpo(),
            ObjectiveName::OnPolicyDistillation => {
                self.check_distillation()?;
                self.check_distributions()?;
                self.check_grpo()
            }
            ObjectiveName::Sft => self.check_sft(),
            ObjectiveName::RewardModel => self.check_reward_model(),
            ObjectiveName::OffPolicyDistillation => {
                self.check_distillation()?;
                self.check_sft()
            }
            ObjectiveName::Dpo | ObjectiveName::Ipo | ObjectiveName::Orpo | ObjectiveName::Kto => {
                self.check_comparisons()
            }
        }
    }

    fn check_data(&self) -> Result<(), TrainError> {
        least("[trainer] batch_size", self.batch_size as u64, 1, "an update needs a conversation")?;
        least("[trainer] epochs", self.epochs, 1, "otherwise nothing is trained")?;
        least("[trainer] max_steps", self.max_steps.unwrap_or(1), 1, "otherwise nothing is trained")?;
        least("[trainer] max_tokens", self.max_tokens.unwrap_or(2) as u64, 2, "one to read and one to predict")?;
        match &self.source {
            Some(source) => source.check(self.objective),
            None => {
                let (name, key) = (self.objective.as_str(), data_key(self.objective));
                let message = format!("is missing: objective = \"{name}\" learns from source = {{ {key} = \"FILE\" }}");
                Err(TrainError::Option { key: "[trainer] source".to_owned(), message })
            }
        }
    }

    fn check_reward_model(&self) -> Result<(), TrainError> {
        self.check_data()?;
        if self.source.as_ref().is_some_and(|source| source.rollouts.is_some()) {
            let message = "is of answers that are trained: a reward model reads source.comparisons".to_owned();
            return Err(TrainError::Option { key: "[trainer] source.rollouts".to_owned(), message });
        }
        Ok(())
    }

    fn check_pairwise(&self) -> Result<(), TrainError> {
        let wrong = |message: &str| {
            Err(TrainError::Option { key: "[trainer] pairwise".to_owned(), message: message.to_owned() })
        };
        match &self.pairwise {
            Some(_) if self.harvest.is_some() => wrong("compares the rollouts of a group, and a harvest has none"),
            Some(_) => least("[trainer] group_size", self.group_size as u64, 2, "answers are compared with each other"),
            None => Ok(()),
        }
    }

    fn check_comparisons(&self) -> Result<(), TrainError> {
        self.check_data()?;
        if self.objective == ObjectiveName::Kto {
            let why = "answers are held against those to other prompts of the batch";
            least("[trainer] batch_size", self.batch_size as u64, 2, why)?;
        }
        let options = &self.preference;
        adam("[trainer] preference.beta", options.beta)?;
        if !(0.0..0.5).contains(&options.label_smoothing) {
            let message = "must be at least 0 and below 0.5: at a half nothing is better than anything";
            return refuse("[trainer] preference.label_smoothing", options.label_smoothing, message);
        }
        let weights =
            [("desirable_weight", options.desirable_weight), ("undesirable_weight", options.undesirable_weight)];
        match weights.into_iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
            Some((key, weight)) => {
                refuse(&format!("[trainer] preference.{key}"), weight, "must be a finite number of at least 0")
            }
            None => Ok(()),
        }
    }

    fn check_sft(&self) -> Result<(), TrainError> {
        if self.source.as_ref().is_some_and(|source| source.rollouts.is_some()) && self.train_on != TrainOn::default() {
            let message = "is of conversations: of rollouts what was sampled is trained";
            return Err(TrainError::Option { key: "[trainer] train_on".to_owned(), message: message.to_owned() });
        }
        let form = self.source.as_ref().map(|source| source.form).unwrap_or_default();
        check_form("[trainer] train_on", form, self.train_on)?;
        if self.packing && self.source.as_ref().is_some_and(|source| source.rollouts.is_some()) {
            let message = "is of conversations: what was sampled is trained behind what the sampler saw";
            return Err(TrainError::Option { key: "[trainer] packing".to_owned(), message: message.to_owned() });
        }
        self.check_data()
    }

    fn check_distillation(&self) -> Result<(), TrainError> {
        match &self.distillation {
            Some(distillation) => distillation.check(self.reads_soft_targets()),
            None if self.reads_soft_targets() => Ok(()),
            None => {
                let objective = self.objective.as_str();
                let message =
                    format!("is missing: objective = \"{objective}\" needs distillation = {{ teacher = \"NAME\" }}");
                Err(TrainError::Option { key: "[trainer] distillation".to_owned(), message })
            }
        }
    }

    /// Whether what a teacher would say was written down before.
    pub(crate) fn reads_soft_targets(&self) -> bool {
        let form = self.source.as_ref().map(|source| source.form).unwrap_or_default();
        self.objective == ObjectiveName::OffPolicyDistillation && form == ConversationForm::SoftTargets
    }

    /// Refuses what is of sampled tokens where whole distributions are learnt.
    fn check_distributions(&self) -> Result<(), TrainError> {
        let loss = self.distillation.as_ref().map(|distillation| distillation.loss).unwrap_or_default();
        let plain = Self::default();
        let of_tokens = [
            ("loss", self.loss != plain.loss),
            ("loss_aggregation", self.loss_aggregation != plain.loss_aggregation),
            ("kl", self.kl.is_some()),
            ("importance_mask", self.importance_mask.is_some()),
            ("substeps", self.substeps != plain.substeps && loss == DistillationLoss::ReverseKl),
        ];
        match of_tokens.into_iter().find(|(_, is_told)| loss.is_of_distributions() && *is_told) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("is nothing that distillation.loss = \"{}\" takes: leave it out", loss.as_str());
                Err(TrainError::Option { key: format!("[trainer] {key}"), message })
            }
        }
    }

    /// Whether the rewards of a group are measured against each other.
    fn needs_groups(&self) -> bool {
        let learns_from_rewards = self
            .distillation
            .as_ref()
            .is_none_or(|teachers| teachers.reward_coefficient > 0.0 || teachers.untaught == Untaught::Rewards);
        learns_from_rewards && self.advantages.baseline.is_of_group()
    }

    fn check_grpo(&self) -> Result<(), TrainError> {
        match &self.harvest {
            Some(harvest) => harvest.check()?,
            None if self.needs_groups() => {
                least("[trainer] group_size", self.group_size as u64, 2, "its mean is what each is measured against")?
            }
            None => least("[trainer] group_size", self.group_size as u64, 1, "a task needs a rollout")?,
        }
        self.check_advantages()?;
        self.check_pairwise()?;
        self.check_failures()?;
        self.check_conversations()?;
        self.check_dynamic_sampling()?;
        self.check_schedule()?;
        check_publishing(self)?;
        least("[trainer] groups_per_batch", self.groups_per_batch as u64, 1, "a step needs a task")?;
        check_bounds(self.reward_bounds)?;
        self.loss_parameters.of(self.loss)?;
        self.kl.as_ref().map_or(Ok(()), KlOptions::check)?;
        let samples = self.evaluation.samples_per_task as u64;
        least("[trainer] evaluation.samples_per_task", samples, 1, "a task that is not tried has no score")?;
        self.stop.check()?;
        check_sampling(&self.sampling_parameters)
    }

    fn check_conversations(&self) -> Result<(), TrainError> {
        let Some(conversations) = &self.conversations else { return Ok(()) };
        let ConversationsBeside { weight, batch_size, max_tokens, form, train_on, .. } = conversations;
        check_form("[trainer] conversations.train_on", *form, *train_on)?;
        if *form == ConversationForm::SoftTargets {
            let message = "is \"soft_targets\", from which objective = \"off_policy_distillation\" learns".to_owned();
            return Err(TrainError::Option { key: "[trainer] conversations.form".to_owned(), message });
        }
        if !weight.is_finite() || *weight <= 0.0 {
            return refuse("[trainer] conversations.weight", weight, "must be a finite number above 0");
        }
        let key = "[trainer] conversations";
        least(&format!("{key}.batch_size"), *batch_size as u64, 1, "an update needs a conversation")?;
        least(&format!("{key}.max_tokens"), max_tokens.unwrap_or(2) as u64, 2, "one to read and one to predict")
    }

    fn check_failures(&self) -> Result<(), TrainError> {
        let FailureOptions { least_members, agent_reward, .. } = self.failures;
        if self.harvest.is_some() && self.failures != FailureOptions::default() {
            let message = "is of rollouts that a run starts itself: of a harvest leave it out".to_owned();
            return Err(TrainError::Option { key: "[trainer] failures".to_owned(), message });
        }
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

    fn check_per_call(&self, per_call: Option<PerCall>) -> Result<(), TrainError> {
        let Some(per_call) = per_call else { return Ok(()) };
        let key = "[trainer] advantages.per_call";
        if !(0.0..=1.0).contains(&per_call.discount) {
            return refuse(&format!("{key}.discount"), per_call.discount, "must be from 0 to 1");
        }
        if !per_call.rollout_weight.is_finite() {
            return refuse(&format!("{key}.rollout_weight"), per_call.rollout_weight, "must be a finite number");
        }
        let message = match (&self.harvest, &self.dynamic_sampling) {
            (Some(_), _) => "is of groups, and a harvest's rollouts may be alone: leave it out",
            (None, Some(_)) => "is not for dynamic_sampling, which looks at what whole rollouts earned",
            (None, None) => return Ok(()),
        };
        Err(TrainError::Option { key: key.to_owned(), message: message.to_owned() })
    }

    fn check_advantages(&self) -> Result<(), TrainError> {
        let AdvantageOptions { baseline, normalize_by_standard_deviation: normalizes, standard_deviation_of, per_call } =
            self.advantages;
        let key = "[trainer] advantages.standard_deviation_of";
        if standard_deviation_of == Spread::Batch && !normalizes {
            return refuse(key, "batch", "nothing is divided without normalize_by_standard_deviation = true");
        }
        if standard_deviation_of == Spread::Group && normalizes && !baseline.is_of_group() {
            return refuse(key, "group", "must be batch: the baseline is not of the group either");
        }
        self.check_per_call(per_call)?;
        if self.harvest.is_some() && !baseline.is_of_group() {
            let message = "a harvest measures a rollout that is alone against harvest.baseline_decay's running mean:                            leave it out";
            return Err(TrainError::Option {
                key: "[trainer] advantages.baseline".to_owned(),
                message: message.to_owned(),
            });
        }
        if self.loss == PolicyLoss::Dro && self.loss_aggregation != LossAggregation::Sum {
            let message =
                "must be sum with the loss `dro`, whose beta would not be divided; lower learning_rate instead";
            return Err(TrainError::Option {
                key: "[trainer] loss_aggregation".to_owned(),
                message: message.to_owned(),
            });
        }
        Ok(())
    }

    /// What depends on the whole batch cannot be known of a part.
    fn check_minibatches(&self) -> Result<(), TrainError> {
        let in_reward = self.kl.as_ref().is_some_and(|kl| kl.place == KlPlace::Reward);
        let other = [
            ("harvest", self.harvest.is_some()),
            ("dynamic_sampling", self.dynamic_sampling.is_some()),
            ("substeps", self.substeps.get() > 1),
            ("importance_mask", self.importance_mask.is_some()),
            ("teachers", self.objective == ObjectiveName::OnPolicyDistillation),
            ("advantages.baseline", !self.advantages.baseline.is_of_group()),
            ("advantages.standard_deviation_of", self.advantages.standard_deviation_of == Spread::Batch),
            ("loss_aggregation", self.loss_aggregation != LossAggregation::Sum),
            ("kl.in = \"reward\"", in_reward),
        ]
        .into_iter()
        .find_map(|(key, is_set)| is_set.then_some(key));
        let Some(other) = other else { return Ok(()) };
        let message =
            format!("cannot be in minibatches with {other}, which is of a whole batch: leave one of them out");
        Err(TrainError::Option { key: "[trainer] schedule".to_owned(), message })
    }

    fn check_schedule(&self) -> Result<(), TrainError> {
        let is_ahead = self.schedule.max_staleness() > 0;
        let wrong = |message: &str| {
            Err(TrainError::Option { key: "[trainer] schedule".to_owned(), message: message.to_owned() })
        };
        if is_ahead && self.harvest.is_some() {
            return wrong(
                "has no rollouts to run ahead in a harvest, whose own harvest.max_staleness says how old they may be",
            );
        }
        if let SamplingSchedule::Minibatches(_) = self.schedule {
            self.check_minibatches()?;
        }
        if is_ahead && self.dynamic_sampling.is_some() {
            return wrong(
                "must be sync with dynamic_sampling, which has to know a group before it tries a further task",
            );
        }
        match self.importance_mask {
            Some([low, high]) if !(low.is_finite() && high.is_finite() && 0.0 <= low && low < high) => {
                let message = "must be two finite ratios from 0 up, the lower one first, such as [0.5, 2.0]";
                refuse("[trainer] importance_mask", format!("[{low}, {high}]"), message)
            }
            _ => Ok(()),
        }
    }

    fn check_dynamic_sampling(&self) -> Result<(), TrainError> {
        let Some(dynamic) = self.dynamic_sampling else { return Ok(()) };
        let wrong = |message: &str| {
            Err(TrainError::Option { key: "[trainer] dynamic_sampling".to_owned(), message: message.to_owned() })
        };
        if self.harvest.is_some() {
            return wrong("a harvest has no tasks to try in place of others: leave it out");
        }
        if !self.advantages.baseline.is_of_group() {
            return wrong("only groups that are measured against themselves can have nothing to teach: leave it out");
        }
        if let Some([low, high]) = dynamic.solve_rate
            && !(0.0 <= low && low <= high && high <= 1.0)
        {
            let value = format!("[{low}, {high}]");
            return refuse("[trainer] dynamic_sampling.solve_rate", value, "must be two shares from 0 to 1, in order");
        }
        if !dynamic.solved_at.is_finite() {
            return refuse("[trainer] dynamic_sampling.solved_at", dynamic.solved_at, "must be a finite number");
        }
        let least_refills = if dynamic.prioritize || dynamic.solve_rate.is_some() { 0 } else { 1 };
        let refills = dynamic.max_refills as u64;
        least("[trainer] dynamic_sampling.max_refills", refills, least_refills, "leave the table out for none")
    }
}

/// Refuses to train other messages of a log than the answers that it is of.
fn check_form(key: &str, form: ConversationForm, train_on: TrainOn) -> Result<(), TrainError> {
    if form == ConversationForm::Messages || train_on == TrainOn::default() {
        return Ok(());
    }
    let message = match form {
        ConversationForm::SoftTargets => {
            "is of form = \"messages\": soft targets say themselves what each place counts"
        }
        _ => "is of form = \"messages\": of a log the answer of each call is trained",
    };
    Err(TrainError::Option { key: key.to_owned(), message: message.to_owned() })
}

/// The key of `source` that names an objective's file.
fn data_key(objective: ObjectiveName) -> &'static str {
    if objective.reads_comparisons() { "comparisons" } else { "conversations" }
}

impl DataSource {
    fn check(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        let (file, other) = match objective.reads_comparisons() {
            true => (&self.comparisons, &self.conversations),
            false => (&self.conversations, &self.comparisons),
        };
        let (key, name) = (data_key(objective), objective.as_str());
        if other.is_some() {
            let others = if objective.reads_comparisons() { "conversations" } else { "comparisons" };
            return Err(TrainError::Option {
                key: format!("[trainer] source.{others}"),
                message: format!("is no key of objective = \"{name}\", which learns from source.{key}: leave it out"),
            });
        }
        let is_of_conversations = self.conversations.is_some() && objective != ObjectiveName::RewardModel;
        if self.form != ConversationForm::Messages && !is_of_conversations {
            let message = "is of source.conversations: leave it out".to_owned();
            return Err(TrainError::Option { key: "[trainer] source.form".to_owned(), message });
        }
        if self.form == ConversationForm::SoftTargets && objective != ObjectiveName::OffPolicyDistillation {
            let message = "is \"soft_targets\", from which objective = \"off_policy_distillation\" learns".to_owned();
            return Err(TrainError::Option { key: "[trainer] source.form".to_owned(), message });
        }
        if file.is_some() == self.rollouts.is_some() {
            let message = format!("is one of {{ {key} = \"FILE\" }} and {{ rollouts = \"reward >= 1\" }}");
            return Err(TrainError::Option { key: "[trainer] source".to_owned(), message });
        }
        if self.rollouts.is_some() && matches!(self.validation, Some(Validation::File(_))) {
            let message = "is a share of the rollouts: validation = 0.1".to_owned();
            return Err(TrainError::Option { key: "[trainer] source.validation".to_owned(), message });
        }
        match self.validation {
            Some(Validation::Share(share)) if !(share > 0.0 && share < 1.0) => {
                refuse("[trainer] source.validation", share, "must be a share above 0 and below 1, or a file")
            }
            _ => Ok(()),
        }
    }
}

impl KlOptions {
    fn check(&self) -> Result<(), TrainError> {
        if !self.coefficient.is_finite() || self.coefficient < 0.0 {
            let message = "must be a finite number of at least 0";
            return refuse("[trainer] kl.coefficient", self.coefficient, message);
        }
        if self.place == KlPlace::Loss && self.discount != 0.0 {
            return refuse("[trainer] kl.discount", self.discount, "is of kl.in = \"reward\": leave it out");
        }
        share("[trainer] kl.discount", f64::from(self.discount))
    }
}

impl HarvestOptions {
    fn check(&self) -> Result<(), TrainError> {
        least("[trainer] harvest.rollouts_per_step", self.rollouts_per_step as u64, 1, "a step needs a rollout")?;
        share("[trainer] harvest.baseline_decay", self.baseline_decay)
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

impl SupervisedOptions {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), TrainError> {
        least("[base.training] batch_size", self.batch_size as u64, 1, "a step needs a row")?;
        adam("[base.training] learning_rate", self.learning_rate)?;
        clip("[base.training] gradient_clip_norm", self.gradient_clip_norm)?;
        least("[base.training] max_steps", self.max_steps, 1, "without a step nothing is learnt")?;
        least("[base.training] checkpoint_every", self.checkpoint_every, 1, "1 is after each step")?;
        match self.validation_accuracy {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                refuse("[base.training] validation_accuracy", share, "must be a share from 0 to 1")
            }
            _ => Ok(()),
        }
    }
}

fn adam(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number above 0, such as 1e-4")
}

fn share(key: &str, value: f64) -> Result<(), TrainError> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { refuse(key, value, "must be at least 0 and below 1") }
}

fn clip(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number of at least 0; 0 does not clip")
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(options: &Value) -> String {
        let options: TrainerOptions = serde_json::from_value(options.clone()).unwrap();
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_key_and_the_fix() {
        TrainerOptions::default().check().unwrap();
        SupervisedOptions::default().check().unwrap();
        let is = |options: Value, expected: &str| assert_eq!(refused(&options), expected);
        is(
            json!({ "learning_rate": 0.0 }),
            "[trainer] learning_rate is 0, but must be a finite number above 0, such as 1e-4",
        );
        is(
            json!({ "group_size": 1 }),
            "[trainer] group_size is 1, but must be at least 2: its mean is what each is measured against",
        );
        is(json!({ "beta2": 1.0 }), "[trainer] beta2 is 1, but must be at least 0 and below 1");
        is(
            json!({ "gradient_clip_norm": -1.0 }),
            "[trainer] gradient_clip_norm is -1, but must be a finite number of at least 0; 0 does not clip",
        );
        is(
            json!({ "sampling_parameters": { "temprature": 1.0 } }),
            "[trainer] sampling_parameters.temprature is no sampling parameter; did you mean `temperature`?",
        );
        is(
            json!({ "sampling_parameters": { "temperature": 0.7 } }),
            "[trainer] sampling_parameters.temperature is 0.7, but must be 1.0 or left out: tokens that were sampled from \
             another distribution than the model's are not trained",
        );
        for count in [json!(3.5), json!("4"), json!(0), json!(-1)] {
            is(
                json!({ "sampling_parameters": { "max_tokens": count } }),
                &format!(
                    "[trainer] sampling_parameters.max_tokens is {count}, but must be a whole number of at least 1"
                ),
            );
        }
        for number in [f64::NAN, f64::INFINITY, -1e-4] {
            let options = TrainerOptions { learning_rate: number, ..TrainerOptions::default() };
            assert!(options.check().is_err());
            let options = SupervisedOptions { learning_rate: number, ..SupervisedOptions::default() };
            assert!(options.check().is_err());
        }
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        let is = |options: Value, expected: &str| assert_eq!(refused(&options), format!("[trainer] {expected}"));
        let batch = json!({ "standard_deviation_of": "batch" });
        let key = "advantages.standard_deviation_of";
        is(
            json!({ "advantages": batch }),
            &format!("{key} is batch, but nothing is divided without normalize_by_standard_deviation = true"),
        );
        is(
            json!({ "advantages": { "baseline": "batch_mean", "normalize_by_standard_deviation": true } }),
            &format!("{key} is group, but must be batch: the baseline is not of the group either"),
        );
        is(
            json!({ "dynamic_sampling": {}, "advantages": { "baseline": "none" } }),
            "dynamic_sampling only groups that are measured against themselves can have nothing to teach: leave it out",
        );
        is(
            json!({ "dynamic_sampling": {}, "harvest": {} }),
            "dynamic_sampling a harvest has no tasks to try in place of others: leave it out",
        );
        is(
            json!({ "dynamic_sampling": { "max_refills": 0 } }),
            "dynamic_sampling.max_refills is 0, but must be at least 1: leave the table out for none",
        );
        is(
            json!({ "loss": "dro", "loss_parameters": { "beta": 1.0 }, "loss_aggregation": "token_mean" }),
            "loss_aggregation must be sum with the loss `dro`, whose beta would not be divided; lower learning_rate instead",
        );
        let ahead = json!({ "async": { "max_staleness": 1 } });
        is(
            json!({ "schedule": ahead, "dynamic_sampling": {} }),
            "schedule must be sync with dynamic_sampling, which has to know a group before it tries a further task",
        );
        is(
            json!({ "schedule": ahead, "harvest": {} }),
            "schedule has no rollouts to run ahead in a harvest, whose own harvest.max_staleness says how old they may be",
        );
        is(
            json!({ "importance_mask": [2.0, 0.5] }),
            "importance_mask is [2, 0.5], but must be two finite ratios from 0 up, the lower one first, such as [0.5, 2.0]",
        );
        let alone = json!({ "group_size": 1, "advantages": { "baseline": "batch_mean" } });
        serde_json::from_value::<TrainerOptions>(alone).unwrap().check().unwrap();
    }

    #[test]
    fn who_harvests_needs_no_groups() {
        let options =
            TrainerOptions { group_size: 1, harvest: Some(HarvestOptions::default()), ..TrainerOptions::default() };
        options.check().unwrap();
    }
}
