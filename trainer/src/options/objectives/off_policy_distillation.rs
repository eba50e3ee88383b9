//! `objective = "off_policy_distillation"`: from a teacher's likeliest tokens in the places of conversations.

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::{OptionsPart, part};
use crate::options::flat::table::TrainerTable;
use crate::options::keys::data_source::{ConversationForm, LossReduction, TrainOn};
use crate::options::keys::distillation::DistillationOptions;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::wrong;
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "off_policy_distillation"`.
    OffPolicyDistillationOptions with data: DataOptions, with teacher: OnlyTeacher, has {
        train_on: TrainOn,
        reduction: LossReduction,
    }
}

/// A teacher of conversations, of which there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct OnlyTeacher {
    /// The table, of which these keys alone are read; none if what the teacher would say was written down before.
    pub distillation: Option<DistillationOptions>,
}

impl OptionsPart for OnlyTeacher {
    fn keys() -> Vec<&'static str> {
        vec!["distillation.teacher", "distillation.top_k"]
    }

    fn take(table: &TrainerTable) -> Self {
        Self { distillation: table.distillation.clone() }
    }

    fn put(&self, table: &mut TrainerTable) {
        table.distillation.clone_from(&self.distillation);
    }
}

impl Variant for OffPolicyDistillationOptions {
    fn usual(&self) -> Usual {
        data::USUAL
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        match &self.teacher.distillation {
            Some(distillation) => distillation.check(self.reads_soft_targets())?,
            None if self.reads_soft_targets() => {}
            None => {
                let message =
                    "is missing: objective = \"off_policy_distillation\" needs distillation = { teacher = \"NAME\" }";
                return wrong("[trainer] distillation", message);
            }
        }
        self.data.check_train_on(self.train_on)?;
        self.data.check(ObjectiveName::OffPolicyDistillation)
    }
}

impl OffPolicyDistillationOptions {
    /// Whether what a teacher would say was written down before.
    pub(crate) fn reads_soft_targets(&self) -> bool {
        self.data.form() == ConversationForm::SoftTargets
    }
}
