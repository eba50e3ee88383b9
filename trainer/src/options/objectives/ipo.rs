//! `objective = "ipo"`: from comparisons, with a margin that is aimed at (Azar et al. 2023).

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::positive;
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "ipo"`.
    IpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        reference: Option<String>,
    }
}

impl Variant for IpoOptions {
    fn usual(&self) -> Usual {
        data::USUAL_OF_COMPARISONS
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::Ipo)?;
        positive("[trainer] preference.beta", self.beta)
    }
}
