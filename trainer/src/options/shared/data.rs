//! What objectives have that learn from data that are there.

use super::common::Usual;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::data_source::{ConversationForm, DataSource, TrainOn, UnusableRows, Validation, check_form};
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
        truncate: bool,
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
            Validation::File(_) => None,
        }
    }

    /// How conversations are written.
    pub(crate) fn form(&self) -> ConversationForm {
        self.source.as_ref().map(|source| source.form).unwrap_or_default()
    }

    pub(crate) fn is_of_rollouts(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.rollouts.is_some())
    }

    pub(crate) fn check(&self, objective: ObjectiveName) -> Result<(), TrainError> {
        least("[trainer] evaluation.every", self.every, 1, "1 is before each update")?;
        least("[trainer] batch_size", self.batch_size as u64, 1, "an update needs a conversation")?;
        least("[trainer] epochs", self.epochs, 1, "otherwise nothing is trained")?;
        least("[trainer] max_tokens", self.max_tokens.unwrap_or(2) as u64, 2, "one to read and one to predict")?;
        match &self.source {
            Some(source) => source.check(objective),
            None => {
                let (name, key) = (objective.as_str(), data_key(objective));
                let message = format!("is missing: objective = \"{name}\" learns from source = {{ {key} = \"FILE\" }}");
                wrong("[trainer] source", message)
            }
        }
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
        if self.form != ConversationForm::Messages && !is_of_conversations {
            return wrong("[trainer] source.form", "is of source.conversations: leave it out");
        }
        if self.form == ConversationForm::SoftTargets && objective != ObjectiveName::OffPolicyDistillation {
            let message = "is \"soft_targets\", from which objective = \"off_policy_distillation\" learns";
            return wrong("[trainer] source.form", message);
        }
        if file.is_some() == self.rollouts.is_some() {
            let message = format!("is one of {{ {key} = \"FILE\" }} and {{ rollouts = \"reward >= 1\" }}");
            return wrong("[trainer] source", message);
        }
        if self.rollouts.is_some() && matches!(self.validation, Some(Validation::File(_))) {
            return wrong("[trainer] source.validation", "is a share of the rollouts: validation = 0.1");
        }
        match self.validation {
            Some(Validation::Share(share)) if !(share > 0.0 && share < 1.0) => {
                refuse("[trainer] source.validation", share, "must be a share above 0 and below 1, or a file")
            }
            _ => Ok(()),
        }
    }
}
