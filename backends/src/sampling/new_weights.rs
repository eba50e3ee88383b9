use std::path::PathBuf;

use fulgurite_types::WeightsVersion;
use serde::{Deserialize, Serialize};

/// Weights to be put behind a sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWeights {
    /// What tokens sampled from them are recorded with.
    pub version: WeightsVersion,
    /// Where they are.
    pub source: WeightsSource,
}

/// Where weights are. A directory must be there under the same path for the host, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightsSource {
    /// A model directory in Hugging Face's format, of the same shape as the model that is served.
    Model(PathBuf),
    /// A directory with a LoRA adapter in PEFT's format, over the model that the host was started with, whatever whole model
    /// was put there since.
    Adapter(PathBuf),
    /// Weights that the host keeps, by its own name for them, such as `tinker://RUN/sampler_weights/NAME`.
    Kept(String),
}

/// What becomes of answers under way when a host's whole model is replaced. With an adapter the question does not arise:
/// they keep theirs to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changeover {
    /// They end first, and new requests wait: each answer is of one version.
    #[default]
    Drain,
    /// They are frozen, and go on from the new weights. Which weights sampled which token, the host must tell, or they
    /// are recorded as unknown.
    InFlight,
}
