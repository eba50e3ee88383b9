use fulgurite_backends::{Comparison, Comparisons, PreferenceLoss, WeightedLoss};

/// What a comparison costs: one loss, or a sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct LossTerms {
    /// The one that rewards and margins are of.
    pub main: PreferenceLoss,
    /// What it counts.
    pub weight: f64,
    /// The others.
    pub others: Vec<WeightedLoss>,
}

impl From<PreferenceLoss> for LossTerms {
    fn from(main: PreferenceLoss) -> Self {
        Self { main, weight: 1.0, others: Vec::new() }
    }
}

impl LossTerms {
    /// Whether one of them asks a reference.
    pub fn has_reference(&self) -> bool {
        self.main.has_reference() || self.others.iter().any(|other| other.loss.has_reference())
    }

    /// Comparisons that cost this, of which each counts `scale`.
    pub(crate) fn comparisons(&self, scale: f64, list: Vec<Comparison>) -> Comparisons {
        let Self { main, weight, others } = self;
        let relative = |other: &WeightedLoss| WeightedLoss { weight: other.weight / weight, ..*other };
        let others = others.iter().map(relative).collect();
        Comparisons { loss: *main, others, scale: scale * weight, likelihood_scale: 0.0, list }
    }
}
