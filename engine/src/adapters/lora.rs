use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::model::lora_module::LoraModule;

/// What an adapter's product is scaled with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraScaling {
    /// `alpha / rank` (Hu et al., 2021).
    #[default]
    Standard,
    /// `alpha / √rank`, which PEFT calls `use_rslora` (Kalajdzievski, 2023).
    RankStabilized,
}

impl LoraScaling {
    /// The factor of the product.
    pub fn factor(self, alpha: f64, rank: usize) -> f64 {
        let rank = rank as f64;
        alpha / if self == Self::RankStabilized { rank.sqrt() } else { rank }
    }
}

/// An adapter that is to be trained over weights that stay as they are: `y = W x + scale · B (A x)` for each of the
/// modules (Hu et al., 2021).
#[derive(Clone, Debug, PartialEq)]
pub struct LoraOptions {
    /// Rows of each `A`, columns of each `B`.
    pub rank: usize,
    /// What the product is scaled with, times the rank, or times its root.
    pub alpha: f64,
    /// Which of the two.
    pub scaling: LoraScaling,
    /// The matrices that it stands beside, in every layer.
    pub modules: BTreeSet<LoraModule>,
    /// Of the numbers that each `A` begins with. Each `B` begins with zeros, so that nothing has changed yet.
    pub seed: u64,
}

impl LoraOptions {
    /// What the scale is times the rank unless it is configured. With one for all ranks the best learning rate is
    /// nearly one for all ranks, too (Schulman et al., LoRA Without Regret, 2025, who have this one).
    pub const ALPHA: f64 = 32.0;

    /// An adapter of this rank beside every matrix of the layers and the head.
    pub fn new(rank: usize, seed: u64) -> Self {
        Self { rank, alpha: Self::ALPHA, scaling: LoraScaling::default(), modules: LoraModule::ALL.into(), seed }
    }

    /// Refuses what makes no adapter.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let refuse = |message: String| Err(EngineError::Adapter { message });
        if self.rank == 0 {
            return refuse("its rank is 0, but must be at least 1".into());
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return refuse(format!("its alpha is {}, but must be a positive number", self.alpha));
        }
        if self.modules.is_empty() {
            return refuse("it has no modules to train".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_adapter_is_refused() {
        LoraOptions::new(1, 0).check().unwrap();
        for (wrong, word) in [
            (LoraOptions::new(0, 0), "rank"),
            (LoraOptions { alpha: 0.0, ..LoraOptions::new(1, 0) }, "alpha"),
            (LoraOptions { alpha: f64::NAN, ..LoraOptions::new(1, 0) }, "alpha"),
            (LoraOptions { modules: BTreeSet::new(), ..LoraOptions::new(1, 0) }, "modules"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
