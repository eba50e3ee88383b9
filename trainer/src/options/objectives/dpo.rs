//! `objective = "dpo"`: from comparisons, against a reference (Rafailov et al. 2023).

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::{positive, refuse};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "dpo"`.
    DpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        label_smoothing: f64,
        reference: Option<String>,
    }
}

impl Variant for DpoOptions {
    fn usual(&self) -> Usual {
        data::USUAL_OF_COMPARISONS
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::Dpo)?;
        positive("[trainer] preference.beta", self.beta)?;
        if !(0.0..0.5).contains(&self.label_smoothing) {
            let message = "must be at least 0 and below 0.5: at a half nothing is better than anything";
            return refuse("[trainer] preference.label_smoothing", self.label_smoothing, message);
        }
        Ok(())
    }
}
