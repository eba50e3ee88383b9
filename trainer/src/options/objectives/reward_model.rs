//! `objective = "reward_model"`: from comparisons, as questions whose answer is one letter, or by a score of each answer.

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::preference::RewardHead;
use crate::options::keys::refusal::{not_negative, wrong};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "reward_model"`.
    RewardModelOptions with data: DataOptions, has {} in preference {
        head: RewardHead,
        centering: f64,
    }
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
        if self.head == RewardHead::Letters && self.centering != 0.0 {
            return wrong("[trainer] preference.centering", "is of preference.head = \"score\": leave it out");
        }
        not_negative("[trainer] preference.centering", self.centering)?;
        Ok(())
    }
}
