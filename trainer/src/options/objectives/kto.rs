//! `objective = "kto"`: from comparisons, or answers that are good or bad by themselves (Ethayarajh et al. 2024).

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::{least, positive, refuse, wrong};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "kto"`.
    KtoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        desirable_weight: f64,
        undesirable_weight: f64,
        reference: Option<String>,
    }
}

impl Variant for KtoOptions {
    fn usual(&self) -> Usual {
        data::USUAL_OF_COMPARISONS
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::Kto)?;
        let why = "answers are held against those to other prompts of the batch";
        least("[trainer] batch_size", self.data.batch_size as u64, 2, why)?;
        positive("[trainer] preference.beta", self.beta)?;
        let weights = [("desirable_weight", self.desirable_weight), ("undesirable_weight", self.undesirable_weight)];
        match weights.into_iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
            Some((key, weight)) => {
                refuse(&format!("[trainer] preference.{key}"), weight, "must be a finite number of at least 0")
            }
            None if self.desirable_weight == 0.0 && self.undesirable_weight == 0.0 => wrong(
                "[trainer] preference.desirable_weight",
                "and undesirable_weight are both 0, so that nothing is learnt",
            ),
            None => Ok(()),
        }
    }
}
