use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::data_source::{ConversationForm, LossReduction, TrainOn};

/// Conversations that are learnt from in each update beside what is learnt from rollouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuxiliaryConversationOptions {
    /// JSON lines, or a Parquet file.
    pub file: PathBuf,
    /// How its rows are written.
    #[serde(default)]
    pub form: ConversationForm,
    /// What their mean loss counts for in the sum that is minimised.
    #[serde(default = "one")]
    pub weight: f32,
    /// Conversations per update.
    #[serde(default = "sixteen")]
    pub batch_size: usize,
    /// Which messages of a conversation are trained.
    #[serde(default)]
    pub train_on: TrainOn,
    /// What their loss is a mean of.
    #[serde(default)]
    pub reduction: LossReduction,
    /// Tokens that a conversation may have; the model's context unless told otherwise.
    #[serde(default)]
    pub max_tokens: Option<usize>,
}

fn one() -> f32 {
    1.0
}

fn sixteen() -> usize {
    16
}
