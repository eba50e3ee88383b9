//! `objective = "dpo"`: from comparisons, against a reference (Rafailov et al. 2023).

use fulgurite_backends::{PreferenceLoss, WeightedLoss};

use super::variant::Variant;
use crate::TrainError;
use crate::options::flat::part::part;
use crate::options::keys::objective_name::ObjectiveName;
use crate::options::keys::preference::{DpoLoss, DpoTerm, DpoTermLoss};
use crate::options::keys::refusal::{not_negative, positive, refuse, wrong};
use crate::options::shared::common::Usual;
use crate::options::shared::data::{self, DataOptions};
use crate::options::shared::loss_terms::LossTerms;

/// The key of several losses, as messages have it.
const LOSSES: &str = "[trainer] preference.losses";

part! {
    /// Keys of `[trainer]` of `objective = "dpo"`.
    DpoOptions with data: DataOptions, has {} in preference {
        beta: f64,
        loss: DpoLoss,
        losses: Vec<DpoTerm>,
        sft_weight: f64,
        length_alpha: f64,
        label_smoothing: f64,
        reference: Option<String>,
    }
}

impl DpoOptions {
    /// What a comparison costs.
    ///
    /// # Errors
    /// If nothing of it compares.
    pub(crate) fn losses(&self) -> Result<LossTerms, TrainError> {
        if self.losses.is_empty() {
            return Ok(LossTerms::from(self.loss_of(self.loss)));
        }
        let of_term = |term: &DpoTerm| Some(WeightedLoss { loss: self.term_loss(term.loss)?, weight: term.weight });
        let terms: Vec<WeightedLoss> = self.losses.iter().filter_map(of_term).collect();
        match &terms[..] {
            [first, others @ ..] => Ok(LossTerms { main: first.loss, weight: first.weight, others: others.to_vec() }),
            [] => wrong(LOSSES, "has \"sft\" alone, which compares nothing: objective = \"sft\" is that"),
        }
    }

    /// What the likelihood of chosen answers counts.
    pub(crate) fn likelihood_weight(&self) -> f64 {
        let terms = self.losses.iter().filter(|term| term.loss == DpoTermLoss::Sft);
        self.sft_weight + terms.map(|term| term.weight).sum::<f64>()
    }

    fn loss_of(&self, loss: DpoLoss) -> PreferenceLoss {
        let (beta, label_smoothing) = (self.beta, self.label_smoothing);
        match loss {
            DpoLoss::Sigmoid => PreferenceLoss::Dpo { beta, label_smoothing },
            DpoLoss::Hinge => PreferenceLoss::Hinge { beta },
            DpoLoss::Robust => PreferenceLoss::Robust { beta, label_smoothing },
            DpoLoss::ApoZero => PreferenceLoss::ApoZero { beta },
            DpoLoss::ApoDown => PreferenceLoss::ApoDown { beta },
        }
    }

    /// None for the likelihood, which is no loss of comparisons.
    fn term_loss(&self, term: DpoTermLoss) -> Option<PreferenceLoss> {
        let loss = match term {
            DpoTermLoss::Sigmoid => DpoLoss::Sigmoid,
            DpoTermLoss::Hinge => DpoLoss::Hinge,
            DpoTermLoss::Robust => DpoLoss::Robust,
            DpoTermLoss::ApoZero => DpoLoss::ApoZero,
            DpoTermLoss::ApoDown => DpoLoss::ApoDown,
            DpoTermLoss::Ipo => return Some(PreferenceLoss::Ipo { beta: self.beta }),
            DpoTermLoss::Sft => return None,
        };
        Some(self.loss_of(loss))
    }

    /// Whether one of the losses knows of wrong labels.
    fn smooths_labels(&self) -> bool {
        match &self.losses[..] {
            [] => matches!(self.loss, DpoLoss::Sigmoid | DpoLoss::Robust),
            terms => terms.iter().any(|term| matches!(term.loss, DpoTermLoss::Sigmoid | DpoTermLoss::Robust)),
        }
    }

    fn check_losses(&self) -> Result<(), TrainError> {
        if self.losses.is_empty() {
            return Ok(());
        }
        if self.loss != DpoLoss::default() || self.sft_weight != 0.0 {
            return wrong(LOSSES, "is in place of preference.loss and preference.sft_weight: leave those out");
        }
        for (place, term) in self.losses.iter().enumerate() {
            positive(&format!("{LOSSES} weight"), term.weight)?;
            if self.losses[..place].iter().any(|other| other.loss == term.loss) {
                return wrong(LOSSES, format!("names {:?} twice: add the weights up", term.loss));
            }
        }
        self.losses().map(drop)
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
        self.check_losses()?;
        if self.label_smoothing > 0.0 && !self.smooths_labels() {
            let message = "is of preference.loss = \"sigmoid\" and \"robust\": leave it out";
            return wrong("[trainer] preference.label_smoothing", message);
        }
        not_negative("[trainer] preference.sft_weight", self.sft_weight)?;
        if !(0.0..=1.0).contains(&self.length_alpha) {
            return refuse("[trainer] preference.length_alpha", self.length_alpha, "must be from 0 to 1");
        }
        if self.likelihood_weight() > 0.0 && self.length_alpha < 1.0 {
            let message =
                "is not for preference.length_alpha, whose tokens do not all count the same: leave one of them out";
            return wrong("[trainer] preference.sft_weight", message);
        }
        Ok(())
    }
}
