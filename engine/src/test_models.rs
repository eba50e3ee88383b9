//! Small models and numbers for the tests.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::model::config::ModelConfig;

/// Two layers; no dimension is a multiple of the vectors' width, but for one head.
pub(crate) fn tiny_config() -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size: 37,
        hidden_size: 20,
        intermediate_size: 27,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 18,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        tie_word_embeddings: true,
        head: Default::default(),
        other: Default::default(),
    }
}

/// Numbers between -1 and 1, the same for the same seed.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| generator.next_u32() as f32 / u32::MAX as f32 * 2.0 - 1.0).collect()
}
