use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// A matrix of the decoder that an adapter can stand beside, under the name that Hugging Face's modules have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LoraModule {
    /// Queries of attention.
    #[serde(rename = "q_proj")]
    Query,
    /// Keys of attention.
    #[serde(rename = "k_proj")]
    Key,
    /// Values of attention.
    #[serde(rename = "v_proj")]
    Value,
    /// From attention back into the stream.
    #[serde(rename = "o_proj")]
    Output,
    /// The feed-forward layer's gate.
    #[serde(rename = "gate_proj")]
    Gate,
    /// What passes the gate.
    #[serde(rename = "up_proj")]
    Up,
    /// From the feed-forward layer back into the stream.
    #[serde(rename = "down_proj")]
    Down,
    /// The output head. Where it is the embedding, tokens that are read keep the embedding as it is.
    #[serde(rename = "lm_head")]
    Head,
}

impl LoraModule {
    /// All of them.
    pub const ALL: [LoraModule; 8] = [
        LoraModule::Query,
        LoraModule::Key,
        LoraModule::Value,
        LoraModule::Output,
        LoraModule::Gate,
        LoraModule::Up,
        LoraModule::Down,
        LoraModule::Head,
    ];
    /// Those of attention.
    pub const ATTENTION: [LoraModule; 4] = [LoraModule::Query, LoraModule::Key, LoraModule::Value, LoraModule::Output];
    /// Those of the feed-forward layer.
    pub const FEED_FORWARD: [LoraModule; 3] = [LoraModule::Gate, LoraModule::Up, LoraModule::Down];

    /// Its name in a configuration's `target_modules`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
            Self::Head => "lm_head",
        }
    }
}

impl fmt::Display for LoraModule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for LoraModule {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let unknown = || EngineError::Adapter { message: format!("there is no module `{name}`; there is {}", names()) };
        Self::ALL.into_iter().find(|module| module.name() == name).ok_or_else(unknown)
    }
}

/// An adapter that is to be trained over weights that stay as they are: `y = W x + alpha / rank · B (A x)` for each of the
/// modules (Hu et al., 2021).
#[derive(Clone, Debug, PartialEq)]
pub struct LoraOptions {
    /// Rows of each `A`, columns of each `B`.
    pub rank: usize,
    /// What the product is scaled with, times the rank.
    pub alpha: f64,
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
        Self { rank, alpha: Self::ALPHA, modules: LoraModule::ALL.into(), seed }
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
    fn a_module_is_found_by_the_name_that_it_is_written_with() {
        for module in LoraModule::ALL {
            assert_eq!(module.name().parse::<LoraModule>().unwrap(), module);
            assert_eq!(serde_json::to_value(module).unwrap(), module.name());
        }
        let error = "embed_tokens".parse::<LoraModule>().unwrap_err().to_string();
        assert!(error.contains("no module `embed_tokens`") && error.contains("lm_head"), "{error}");
    }

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
