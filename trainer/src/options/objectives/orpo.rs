//! `objective = "orpo"`: from comparisons, by the chosen answer's likelihood and its odds (Hong et al. 2024).

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::positive;
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "orpo"`.
    OrpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
    }
}

impl Variant for OrpoOptions {
    fn usual(&self) -> Usual {
        data::USUAL_OF_COMPARISONS
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::Orpo)?;
        positive("[trainer] preference.beta", self.beta)
    }
}
