//! `objective = "dpo"`: from comparisons, against a reference (Rafailov et al. 2023).

use fulgurite_backends::PreferenceLoss;

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::preference::DpoLoss;
use crate::options::keys::refusal::{not_negative, positive, refuse, wrong};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};

part! {
    /// Keys of `[trainer]` of `objective = "dpo"`.
    DpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        loss: DpoLoss,
        sft_weight: f64,
        length_alpha: f64,
        label_smoothing: f64,
        reference: Option<String>,
    }
}

impl DpoOptions {
    /// What a comparison costs.
    pub(crate) fn loss(&self) -> PreferenceLoss {
        let (beta, label_smoothing) = (self.beta, self.label_smoothing);
        match self.loss {
            DpoLoss::Sigmoid => PreferenceLoss::Dpo { beta, label_smoothing },
            DpoLoss::Hinge => PreferenceLoss::Hinge { beta },
            DpoLoss::Robust => PreferenceLoss::Robust { beta, label_smoothing },
            DpoLoss::ApoZero => PreferenceLoss::ApoZero { beta },
            DpoLoss::ApoDown => PreferenceLoss::ApoDown { beta },
        }
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
        if self.label_smoothing > 0.0 && !matches!(self.loss, DpoLoss::Sigmoid | DpoLoss::Robust) {
            let message = "is of preference.loss = \"sigmoid\" and \"robust\": leave it out";
            return wrong("[trainer] preference.label_smoothing", message);
        }
        not_negative("[trainer] preference.sft_weight", self.sft_weight)?;
        if !(0.0..=1.0).contains(&self.length_alpha) {
            return refuse("[trainer] preference.length_alpha", self.length_alpha, "must be from 0 to 1");
        }
        if self.sft_weight > 0.0 && self.length_alpha < 1.0 {
            let message =
                "is not for preference.length_alpha, whose tokens do not all count the same: leave one of them out";
            return wrong("[trainer] preference.sft_weight", message);
        }
        Ok(())
    }
}
