//! `[base]`: a model that is made before a run trains it.

use fulgurite_engine::ModelConfig;
use fulgurite_trainer::SupervisedOptions;
use serde::{Deserialize, Serialize};

/// `[base]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseConfig {
    /// Program that writes the corpus, JSON lines of
    /// `{"messages": [...], "tools": [...], "split": "train" | "validation"}`; `{seed}` is filled in.
    pub corpus: Vec<String>,
    /// Pieces of the tokenizer that is trained on the corpus.
    pub vocabulary_size: usize,
    /// Whether the names of the roles are pieces, too. Without it a template that writes `assistant` takes up to nine tokens for
    /// it in every turn; a model that was made without it is made anew.
    #[serde(default)]
    pub role_pieces: bool,
    /// Seed in place of the run's.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The decoder.
    pub shape: Shape,
    /// How it is trained.
    #[serde(default)]
    pub training: SupervisedOptions,
}

/// `[base.shape]`: a Qwen3 decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_value_heads: usize,
    /// Width of a head.
    pub head_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Tokens of prompt and answer together.
    pub context_length: usize,
}

impl Shape {
    /// The shape as an HF config. The head is the embedding, as in the small models of the family.
    pub fn model_config(&self, vocabulary_size: usize, end_of_turn: &[u32]) -> ModelConfig {
        ModelConfig {
            architecture: Default::default(),
            vocab_size: vocabulary_size,
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.layers,
            num_attention_heads: self.heads,
            num_key_value_heads: self.key_value_heads,
            head_dim: self.head_size,
            max_position_embeddings: self.context_length,
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_scaling: Default::default(),
            tie_word_embeddings: true,
            head: Default::default(),
            other: serde_json::Map::from_iter([("eos_token_id".to_owned(), serde_json::json!(end_of_turn))]),
        }
    }
}
