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
}
