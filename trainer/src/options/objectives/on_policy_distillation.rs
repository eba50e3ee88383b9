//! `objective = "on_policy_distillation"`: from a teacher's logprobs of what the policy sampled.

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::distillation::{DistillationLoss, DistillationOptions, Untaught};
use crate::options::keys::refusal::wrong;
use crate::options::shared::common::Usual;
use crate::options::shared::rollouts::{self, RolloutOptions};

part! {
    /// Keys of `[trainer]` of `objective = "on_policy_distillation"`.
    OnPolicyDistillationOptions with rollouts: RolloutOptions, has {
        distillation: Option<DistillationOptions>,
    }
}

impl Variant for OnPolicyDistillationOptions {
    fn usual(&self) -> Usual {
        rollouts::USUAL
    }

    fn set_evaluation_every(&mut self, every: u64) {
        self.rollouts.evaluation.every = every;
    }

    fn check(&self) -> Result<(), TrainError> {
        let Some(distillation) = &self.distillation else {
            let message =
                "is missing: objective = \"on_policy_distillation\" needs distillation = { teacher = \"NAME\" }";
            return wrong("[trainer] distillation", message);
        };
        distillation.check(false)?;
        if self.rollouts.temperature() != 1.0 {
            let message = "must be 1 or left out: teachers tell logprobs at temperature 1";
            return wrong("[trainer] sampling_parameters.temperature", message);
        }
        self.check_distributions(distillation.loss)?;
        let learns_from_rewards = distillation.reward_coefficient > 0.0 || distillation.untaught == Untaught::Rewards;
        self.rollouts.check_groups(learns_from_rewards)?;
        self.rollouts.check_minibatches(&[("teachers", true)])?;
        self.rollouts.check()
    }
}

impl OnPolicyDistillationOptions {
    /// Refuses what is of sampled tokens where whole distributions are learnt.
    fn check_distributions(&self, loss: DistillationLoss) -> Result<(), TrainError> {
        let (written, plain) = (&self.rollouts, RolloutOptions::default());
        let of_tokens = [
            ("loss", written.loss != plain.loss),
            ("loss_aggregation", written.loss_aggregation != plain.loss_aggregation),
            ("rollout_length", written.rollout_length.is_some()),
            ("entropy_bonus", written.entropy_bonus.is_set()),
            ("top_entropy", written.top_entropy.is_some()),
            ("kl", written.kl.is_some()),
            ("importance_mask", written.importance_mask.is_some()),
            ("substeps", written.substeps != plain.substeps && loss == DistillationLoss::ReverseKl),
        ];
        match of_tokens.into_iter().find(|(_, is_set)| loss.is_of_distributions() && *is_set) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("is nothing that distillation.loss = \"{}\" takes: leave it out", loss.as_str());
                wrong(&format!("[trainer] {key}"), message)
            }
        }
    }
}
