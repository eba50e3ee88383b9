//! `objective = "sft"`: from conversations, by cross entropy.

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::data_source::{LossReduction, Packing, TrainOn};
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::refusal::wrong;
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "sft"`.
    SftOptions with data: DataOptions, has {
        train_on: TrainOn,
        reduction: LossReduction,
        packing: Packing,
    }
}

impl Variant for SftOptions {
    fn usual(&self) -> Usual {
        data::USUAL
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.data.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        self.data.check_train_on(self.train_on)?;
        if self.packing != Packing::Off && self.data.is_of_rollouts() {
            let message = "is of conversations: what was sampled is trained behind what the sampler saw";
            return wrong("[trainer] packing", message);
        }
        self.data.check(ObjectiveName::Sft)
    }
}
