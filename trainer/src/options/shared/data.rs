//! What objectives have that learn from data that are there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::common::Usual;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::data_source::{
    ConversationForm, DataSource, MixedFile, MixtureUnit, ReasoningUse, TrainOn, Truncation, UnusableRows, Validation,
    check_form,
};
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::{least, refuse, wrong};
use crate::options::keys::schedule::LearningRateSchedule;

/// Defaults of objectives that learn from conversations.
pub(crate) const USUAL: Usual = Usual {
    learning_rate: 1e-4,
    learning_rate_schedule: LearningRateSchedule::Linear,
    max_steps: None,
    checkpoint_every: 20,
    evaluation_every: 10,
};

/// Those of objectives that compare answers.
pub(crate) const USUAL_OF_COMPARISONS: Usual = Usual { learning_rate: 1e-5, ..USUAL };

part! {
    /// Keys of `[trainer]` of objectives that learn from conversations or comparisons.
    DataOptions has {
        source: Option<DataSource>,
        epochs: u64,
        batch_size: usize,
        max_tokens: Option<usize>,
        unusable_rows: UnusableRows,
        truncate: Truncation,
        reasoning: ReasoningUse,
    } in evaluation {
        every: u64,
    }
}

impl DataOptions {
    /// Updates that the epochs of so many rows have.
    pub(crate) fn updates_of(&self, rows: u64) -> u64 {
        rows.div_ceil(self.batch_size as u64).saturating_mul(self.epochs)
    }

    /// Whether anything is scored and not trained.
    pub(crate) fn has_validation(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.validation.is_some())
    }

    /// The share of the rows that is scored and not trained, where it is one.
    pub(crate) fn validation_share(&self) -> Option<f64> {
        match self.source.as_ref()?.validation.as_ref()? {
            Validation::Share(share) => Some(*share),
            Validation::File(_) | Validation::Named(_) => None,
        }
    }

    /// How conversations are written.
    pub(crate) fn form(&self) -> ConversationForm {
        self.source.as_ref().map(|source| source.form).unwrap_or_default()
    }

    /// What the weights of a mixture are shares of.
    pub(crate) fn mixture_unit(&self) -> MixtureUnit {
        self.source.as_ref().map(|source| source.mixture_unit).unwrap_or_default()
    }

    pub(crate) fn is_of_rollouts(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.rollouts.is_some())
    }

    pub(crate) fn check(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        least("[trainer] evaluation.every", self.every, 1, "1 is before each update")?;
        least("[trainer] batch_size", self.batch_size as u64, 1, "an update needs a conversation")?;
        least("[trainer] epochs", self.epochs, 1, "otherwise nothing is trained")?;
        least("[trainer] max_tokens", self.max_tokens.unwrap_or(2) as u64, 2, "one to read and one to predict")?;
        self.check_reasoning(objective)?;
        match &self.source {
            Some(source) => source.check(objective),
            None => {
                let (name, key) = (objective.as_str(), data_key(objective));
                let message = format!("is missing: objective = \"{name}\" learns from source = {{ {key} = \"FILE\" }}");
                wrong("[trainer] source", message)
            }
        }
    }

    fn check_reasoning(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        if self.reasoning == ReasoningUse::Keep {
            return Ok(());
        }
        if self.is_of_rollouts() {
            return wrong("[trainer] reasoning", "is of files: of rollouts what was sampled is trained");
        }
        if self.form() == ConversationForm::SoftTargets {
            return wrong("[trainer] reasoning", "is of messages: soft targets say themselves what each place counts");
        }
        if self.reasoning == ReasoningUse::Only && objective == ObjectiveName::RewardModel {
            return wrong(
                "[trainer] reasoning",
                "is \"only\", and of objective = \"reward_model\" a letter is trained",
            );
        }
        Ok(())
    }

    /// Refuses to train other messages than those that there are to choose among.
    pub(crate) fn check_train_on(&self, train_on: TrainOn) -> Result<(), TrainError> {
        if self.is_of_rollouts() && train_on != TrainOn::default() {
            return wrong("[trainer] train_on", "is of conversations: of rollouts what was sampled is trained");
        }
        check_form("[trainer] train_on", self.form(), train_on)
    }
}

/// The key of `source` that names an objective's file.
fn data_key(objective: ObjectiveName) -> &'static str {
    if objective.reads_comparisons() { "comparisons" } else { "conversations" }
}

impl DataSource {
    fn check(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        let (file, other, others) = if objective.reads_comparisons() {
            (&self.comparisons, &self.conversations, "conversations")
        } else {
            (&self.conversations, &self.comparisons, "comparisons")
        };
        let (key, name) = (data_key(objective), objective.as_str());
        if other.is_some() {
            let message = format!("is no key of objective = \"{name}\", which learns from source.{key}: leave it out");
            return wrong(&format!("[trainer] source.{others}"), message);
        }
        let is_of_conversations = self.conversations.is_some() && objective != ObjectiveName::RewardModel;
        let is_of_comparisons = self.comparisons.is_some() && self.form.is_of_comparisons();
        if self.form != ConversationForm::Auto && !is_of_comparisons && !is_of_conversations {
            let message = match self.rollouts {
                Some(_) => "is of source.conversations: leave it out".to_owned(),
                None => {
                    let form = self.form.as_str();
                    format!("is \"{form}\", but comparisons are \"pairs\", \"judged\" or \"labels\": leave it out")
                }
            };
            return wrong("[trainer] source.form", message);
        }
        if is_of_conversations && self.form.is_of_comparisons() {
            let message = format!("is \"{}\", which is of source.comparisons: leave it out", self.form.as_str());
            return wrong("[trainer] source.form", message);
        }
        if self.form == ConversationForm::SoftTargets && objective != ObjectiveName::OffPolicyDistillation {
            let message = "is \"soft_targets\", from which objective = \"off_policy_distillation\" learns";
            return wrong("[trainer] source.form", message);
        }
        self.check_mixture(objective)?;
        if file.is_some() && !self.mixture.is_empty() {
            let message = format!("is in place of source.{key}: leave one of them out");
            return wrong("[trainer] source.mixture", message);
        }
        if (file.is_some() || !self.mixture.is_empty()) == self.rollouts.is_some() {
            let message = format!("is one of {{ {key} = \"FILE\" }} and {{ rollouts = \"reward >= 1\" }}");
            return wrong("[trainer] source", message);
        }
        if self.rollouts.is_some() && matches!(self.validation, Some(Validation::File(_) | Validation::Named(_))) {
            return wrong("[trainer] source.validation", "is a share of the rollouts: validation = 0.1");
        }
        least("[trainer] source.max_rows", self.max_rows.unwrap_or(1), 1, "leave it out for all rows")?;
        if self.rollouts.is_some() && self.max_rows.is_some() {
            return wrong("[trainer] source.max_rows", "is of files: leave it out");
        }
        let is_divided = self.rollouts.is_none() && matches!(self.validation, Some(Validation::Share(_)));
        if self.validation_group.is_some() && !is_divided {
            let message = "is of files of which source.validation is a share, such as 0.1: leave it out";
            return wrong("[trainer] source.validation_group", message);
        }
        match self.validation {
            Some(Validation::Named(ref files)) => check_names(files),
            Some(Validation::Share(share)) if !(share > 0.0 && share < 1.0) => {
                refuse("[trainer] source.validation", share, "must be a share above 0 and below 1, or a file")
            }
            _ => Ok(()),
        }
    }
}

impl DataSource {
    fn check_mixture(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        if self.mixture.is_empty() {
            return match self.mixture_unit {
                MixtureUnit::Rows => Ok(()),
                MixtureUnit::Tokens => wrong("[trainer] source.mixture_unit", "is of source.mixture: leave it out"),
            };
        }
        let key = |index: usize, name: &str| format!("[trainer] source.mixture[{index}].{name}");
        if self.form != ConversationForm::Auto {
            return wrong("[trainer] source.form", "is of one file: each of source.mixture has a form of its own");
        }
        let is_weighed = self.mixture.iter().any(|file| file.weight.is_some());
        for (index, MixedFile { form, weight, epochs, .. }) in self.mixture.iter().enumerate() {
            if is_weighed && (weight.is_none() || epochs.is_some()) {
                return wrong(&key(index, "weight"), "is of every file or of none, and epochs stand in its place");
            }
            for (name, number) in [("weight", weight), ("epochs", epochs)] {
                if let Some(number) = number.filter(|number| !(number.is_finite() && *number > 0.0)) {
                    return refuse(
                        &key(index, name),
                        number,
                        "must be a finite number above 0: leave the file out for none",
                    );
                }
            }
            let is_known = *form == ConversationForm::Auto
                || form.is_of_comparisons() == objective.reads_comparisons() && *form != ConversationForm::SoftTargets;
            if !is_known {
                let message =
                    format!("is \"{}\", which objective = \"{}\" does not read", form.as_str(), objective.as_str());
                return wrong(&key(index, "form"), message);
            }
        }
        if !is_weighed && self.mixture_unit == MixtureUnit::Tokens {
            return wrong("[trainer] source.mixture_unit", "is what weights are shares of, and no file has a weight");
        }
        Ok(())
    }
}

/// Names of held-out sets, which are parts of their metrics' names.
fn check_names(files: &BTreeMap<String, PathBuf>) -> Result<(), TrainError> {
    let is_name = |name: &String| {
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        !name.is_empty() && name.chars().all(is_of_name)
    };
    if files.is_empty() {
        return wrong("[trainer] source.validation", "names no file: leave it out, or say { NAME = \"FILE\" }");
    }
    match files.keys().find(|name| !is_name(name)) {
        Some(name) => {
            refuse("[trainer] source.validation", name, "has a name of other characters than letters, digits, _ and -")
        }
        None => Ok(()),
    }
}
