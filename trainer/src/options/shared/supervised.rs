use fulgurite_renderers::TrainOnWhat;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::options::keys::refusal::{least, norm, positive, refuse};

/// How a base model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SupervisedOptions {
    /// Conversations per step.
    pub batch_size: usize,
    /// Adam's step size between warm-up and cool-down.
    pub learning_rate: f64,
    /// Steps over which the step size grows from 0.
    pub warmup_steps: u64,
    /// Last steps, over which it falls to 0 again.
    pub cooldown_steps: u64,
    /// Greatest norm of the gradient of the mean loss; 0 does not clip.
    pub gradient_clip_norm: f64,
    /// Steps at most.
    pub max_steps: u64,
    /// Validation rows are scored after every this many steps.
    pub validate_every: u64,
    /// A checkpoint, from which making the base goes on if it was cut short, after every this many steps.
    pub checkpoint_every: u64,
    /// The stop rule: the cool-down begins once this share of the validation rows' trained tokens has more than half
    /// of the model's probability. If the model does not get there, or is not there at the end, it is an error.
    /// Without it all of `max_steps` are made.
    pub validation_accuracy: Option<f64>,
    /// Which messages of a conversation are trained.
    pub train_on: TrainedMessages,
}

/// Which messages of a conversation a base model is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainedMessages {
    /// Every one of the assistant's.
    #[default]
    AllAssistantMessages,
    /// Those of the assistant after the last one of the user.
    LastAssistantTurn,
    /// The last one of the assistant; what follows it is left out.
    LastAssistantMessage,
}

impl TrainedMessages {
    pub(crate) fn train_on(self) -> TrainOnWhat {
        match self {
            Self::AllAssistantMessages => TrainOnWhat::AllAssistantMessages,
            Self::LastAssistantTurn => TrainOnWhat::LastAssistantTurn,
            Self::LastAssistantMessage => TrainOnWhat::LastAssistantMessage,
        }
    }
}

impl Default for SupervisedOptions {
    fn default() -> Self {
        Self {
            batch_size: 64,
            learning_rate: 5e-3,
            warmup_steps: 20,
            cooldown_steps: 200,
            gradient_clip_norm: 1.0,
            max_steps: 1000,
            validate_every: 25,
            checkpoint_every: 100,
            validation_accuracy: None,
            train_on: TrainedMessages::default(),
        }
    }
}

impl SupervisedOptions {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), TrainError> {
        least("[base.training] batch_size", self.batch_size as u64, 1, "a step needs a row")?;
        positive("[base.training] learning_rate", self.learning_rate)?;
        norm("[base.training] gradient_clip_norm", self.gradient_clip_norm)?;
        least("[base.training] max_steps", self.max_steps, 1, "without a step nothing is learnt")?;
        least("[base.training] checkpoint_every", self.checkpoint_every, 1, "1 is after each step")?;
        match self.validation_accuracy {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                refuse("[base.training] validation_accuracy", share, "must be a share from 0 to 1")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_size_is_a_finite_number_above_0() {
        SupervisedOptions::default().check().unwrap();
        for learning_rate in [f64::NAN, f64::INFINITY, -1e-4] {
            assert!(SupervisedOptions { learning_rate, ..SupervisedOptions::default() }.check().is_err());
        }
    }
}
