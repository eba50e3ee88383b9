//! `objective = "reward_model"`: from comparisons, as questions whose answer is one letter.

use super::common::Usual;
use super::data::{self, DataOptions};
use super::objective_name::ObjectiveName;
use super::part::part;
use super::refusal::wrong;
use super::variant::Variant;
use crate::TrainError;

part! {
    /// Keys of `[trainer]` of `objective = "reward_model"`.
    RewardModelOptions with data: DataOptions, has {}
}

impl Variant for RewardModelOptions {
    fn usual(&self) -> Usual {
        data::USUAL
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check(ObjectiveName::RewardModel)?;
        if self.data.is_of_rollouts() {
            let message = "is of answers that are trained: a reward model reads source.comparisons";
            return wrong("[trainer] source.rollouts", message);
        }
        Ok(())
    }
}
