use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::adapters::adapter_layout::AdapterLayout;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
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
    /// As the config names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::RankStabilized => "rank_stabilized",
        }
    }

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
    /// The matrices that it stands beside.
    pub modules: BTreeSet<LoraModule>,
    /// The layers that it is of, from 0 on, where it is not of all. An adapter of some layers has none of the head.
    pub layers: Option<BTreeSet<usize>>,
    /// Of the numbers that each `A` begins with. Each `B` begins with zeros, so that nothing has changed yet.
    pub seed: u64,
}

impl LoraOptions {
    /// What the scale is times the rank unless it is configured. With one for all ranks the best learning rate is
    /// nearly one for all ranks, too (Schulman et al., LoRA Without Regret, 2025, who have this one).
    pub const ALPHA: f64 = 32.0;

    /// An adapter of this rank beside every matrix of the layers and the head.
    pub fn new(rank: usize, seed: u64) -> Self {
        Self {
            rank,
            alpha: Self::ALPHA,
            scaling: LoraScaling::default(),
            modules: LoraModule::ALL.into(),
            layers: None,
            seed,
        }
    }

    /// Where its numbers stand.
    pub(crate) fn layout(&self, config: &ModelConfig) -> AdapterLayout {
        let is_of_layer = |name: &str| {
            self.layers.as_ref().is_none_or(|layers| layer_of(name).is_some_and(|layer| layers.contains(&layer)))
        };
        AdapterLayout::choosing(config, self.rank, |module, name| self.modules.contains(&module) && is_of_layer(name))
    }

    /// Refuses what makes no adapter of a model with so many layers.
    pub(crate) fn check(&self, layers: usize) -> Result<(), EngineError> {
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
        let Some(chosen) = &self.layers else { return Ok(()) };
        if self.modules.contains(&LoraModule::Head) {
            return refuse(
                "it is of some layers, and lm_head is in none of them: leave lm_head out of its modules".into(),
            );
        }
        match chosen.iter().find(|layer| **layer >= layers) {
            Some(layer) => refuse(format!("it is of layer {layer}, but the model's layers are 0 to {}", layers - 1)),
            None if chosen.is_empty() => refuse("it is of no layer".into()),
            None => Ok(()),
        }
    }
}

/// The layer that a module is in, by its name in the model.
pub(crate) fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("model.layers.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_adapter_is_refused() {
        LoraOptions::new(1, 0).check(2).unwrap();
        let attention = LoraOptions { modules: LoraModule::ATTENTION.into(), ..LoraOptions::new(1, 0) };
        LoraOptions { layers: Some([1].into()), ..attention.clone() }.check(2).unwrap();
        for (wrong, word) in [
            (LoraOptions::new(0, 0), "rank"),
            (LoraOptions { alpha: 0.0, ..LoraOptions::new(1, 0) }, "alpha"),
            (LoraOptions { alpha: f64::NAN, ..LoraOptions::new(1, 0) }, "alpha"),
            (LoraOptions { modules: BTreeSet::new(), ..LoraOptions::new(1, 0) }, "modules"),
            (LoraOptions { layers: Some([0].into()), ..LoraOptions::new(1, 0) }, "leave lm_head out"),
            (
                LoraOptions { layers: Some([0, 2].into()), ..attention.clone() },
                "layer 2, but the model's layers are 0 to 1",
            ),
            (LoraOptions { layers: Some(BTreeSet::new()), ..attention }, "of no layer"),
        ] {
            let error = wrong.check(2).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
