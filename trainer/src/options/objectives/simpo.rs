//! `objective = "simpo"`: from comparisons, by mean logprobs and without a reference (Meng et al. 2024).

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::{not_negative, positive};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

/// What mean logprobs are multiplied by unless a config says: the paper's least, of other losses the default is a logprob's.
const USUAL_BETA: f64 = 2.0;

part! {
    /// Keys of `[trainer]` of `objective = "simpo"`.
    SimpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        gamma: f64,
        sft_weight: f64,
    }
}

impl Variant for SimpoOptions {
    fn usual(&self) -> Usual {
        data::USUAL_OF_COMPARISONS
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn set_own_defaults(&mut self, is_written: &dyn Fn(&str) -> bool) {
        if !is_written("preference.beta") {
            self.beta = USUAL_BETA;
        }
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::Simpo)?;
        positive("[trainer] preference.beta", self.beta)?;
        not_negative("[trainer] preference.gamma", self.gamma)?;
        not_negative("[trainer] preference.sft_weight", self.sft_weight)
    }
}
