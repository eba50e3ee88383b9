use std::ops::Range;

use serde::Serialize;

use crate::error::EngineError;
use crate::kernels::{PackedMatrix, Precision};
use crate::machine_memory::{available_memory, bytes_text};
use crate::model::config::ModelConfig;
use crate::model::layout::{Layout, MatrixLayout};
use crate::model::pass_sizes::{ROWS, SavedActivations, chunk_rows, shard_count};

const NUMBER: u64 = size_of::<f32>() as u64;

/// Bytes of memory that a model takes here, as they add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// The weights as they are read: 2 bytes for each number of a matrix that is bfloat16 in its file, else 4.
    pub weights: u64,
    /// Cosines and sines of the rotary embedding, for each position of the context.
    pub rotation: u64,
    /// One version of weights that are trained, all numbers of which have 4 bytes.
    pub trained_weights: u64,
    /// Gradients, one for each of the learner's shards.
    pub gradients: u64,
    /// The optimizer's two moments.
    pub moments: u64,
    /// What a forward pass leaves for its backward pass, in each shard.
    pub activations: u64,
    /// The same where only the layers' inputs are kept, and each layer is computed once more in the backward pass.
    pub activations_recomputed: u64,
    /// The most that is kept of sequences for prompts that begin alike.
    pub prefix_cache: u64,
    /// Keys and values of one token of a sequence that is being sampled. No sum holds them.
    pub keys_and_values_per_token: u64,
    /// One version of the adapter, if that is what is trained, ready for use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<u64>,
}

impl MemoryNeed {
    /// Of a model whose weights are read in 32 bits, trained on sequences of at most `sequence` tokens, and of a sampler
    /// that keeps nothing for later prompts.
    pub fn of(config: &ModelConfig, sequence: usize) -> Self {
        Self::of_weights(config, weights_bytes(&Layout::new(config), |_| Precision::Single), sequence)
    }

    /// Of a model whose matrices are held as `precision` says for the place of each.
    pub(crate) fn of_matrices(
        config: &ModelConfig,
        layout: &Layout,
        precision: impl Fn(&Range<usize>) -> Precision,
    ) -> Self {
        Self::of_weights(config, weights_bytes(layout, precision), 0)
    }

    fn of_weights(config: &ModelConfig, weights: u64, sequence: usize) -> Self {
        let parameters = config.parameter_count() as u64;
        let shards = shard_count(config) as u64;
        let rows = sequence.max(ROWS);
        Self {
            weights,
            rotation: (config.max_position_embeddings * config.head_dim) as u64 * NUMBER,
            trained_weights: weights_bytes(&Layout::new(config), |_| Precision::Single),
            gradients: shards * parameters * NUMBER,
            moments: 2 * parameters * NUMBER,
            activations: shards * activation_bytes(config, rows, SavedActivations::Everything),
            activations_recomputed: shards * activation_bytes(config, rows, SavedActivations::Inputs),
            prefix_cache: 0,
            keys_and_values_per_token: (2 * config.num_hidden_layers * config.key_width()) as u64 * NUMBER,
            adapter: None,
        }
    }

    /// The same, where an adapter of so many numbers is trained over the model, which is then there once.
    pub fn with_adapter(self, config: &ModelConfig, numbers: usize) -> Self {
        let numbers = numbers as u64;
        Self {
            gradients: shard_count(config) as u64 * numbers * NUMBER,
            moments: 2 * numbers * NUMBER,
            // Its matrices are packed, too.
            adapter: Some(2 * numbers * NUMBER),
            ..self
        }
    }

    /// To sample from one version.
    pub fn sampling(&self) -> u64 {
        self.weights + self.rotation + self.prefix_cache
    }

    /// To train all weights, or the adapter, while the version before is sampled from. The learner keeps all activations if
    /// there is room for them, and this counts those that it cannot do without.
    pub fn training(&self) -> u64 {
        let versions = self.adapter.map_or(2 * self.trained_weights, |adapter| self.weights + 2 * adapter);
        versions + self.rotation + self.prefix_cache + self.gradients + self.moments + self.activations_recomputed
    }

    pub(crate) fn check_sampling(&self) -> Result<(), EngineError> {
        let parts = format!(
            "weights {} + positions of the context {} + prefix cache {}",
            bytes_text(self.weights),
            bytes_text(self.rotation),
            bytes_text(self.prefix_cache)
        );
        check("sampled from", self.sampling(), parts)
    }

    /// Once one version is there, from which nothing has been sampled yet.
    pub(crate) fn check_training(&self) -> Result<(), EngineError> {
        let versions = match self.adapter {
            Some(adapter) => format!("two versions of the adapter {}", bytes_text(2 * adapter)),
            None if self.weights == self.trained_weights => {
                format!("another version of the weights {}", bytes_text(self.trained_weights))
            }
            None => format!(
                "two versions of the weights {} less the one that was read {}",
                bytes_text(2 * self.trained_weights),
                bytes_text(self.weights)
            ),
        };
        let parts = format!(
            "{versions} + gradients {} + the optimizer's moments {} + activations {} + prefix cache {}",
            bytes_text(self.gradients),
            bytes_text(self.moments),
            bytes_text(self.activations_recomputed),
            bytes_text(self.prefix_cache)
        );
        check("trained", self.training() - self.weights - self.rotation, parts)
    }
}

/// Bytes of one version of the weights, whose matrices are held as `precision` says for the place of each.
fn weights_bytes(layout: &Layout, precision: impl Fn(&Range<usize>) -> Precision) -> u64 {
    let matrix = |it: &MatrixLayout| PackedMatrix::bytes(it.inputs, it.outputs(), precision(&it.place)) as u64;
    layout.vectors.len() as u64 * NUMBER + layout.matrices.iter().map(matrix).sum::<u64>()
}

/// Bytes that a pass over so many rows takes in one shard, forth and back.
pub(crate) fn activation_bytes(config: &ModelConfig, rows: usize, kept: SavedActivations) -> u64 {
    let (hidden, inner, layers) = (config.hidden_size, config.intermediate_size, config.num_hidden_layers);
    let (query, key) = (config.query_width(), config.key_width());
    let layer = 4 * hidden + (query + 2 * key) + (query + key) + key + query + 3 * inner;
    let kept_of_layers = match kept {
        SavedActivations::Nothing => layer,
        SavedActivations::Inputs => layers * hidden + layer,
        SavedActivations::Everything => layers * layer,
    };
    // The backward pass has as much of one layer again.
    let per_row = (kept_of_layers + layer + 3 * hidden) as u64;
    let logits = (chunk_rows(config).min(rows) * config.vocab_size) as u64;
    (rows as u64 * per_row + logits) * NUMBER
}

/// Bytes that each shard's activations may take of what is available now, once the rest of what training takes is there.
pub(crate) fn activation_budget(config: &ModelConfig, trained: usize) -> u64 {
    let need = MemoryNeed::of(config, 0);
    let shards = shard_count(config) as u64;
    let another_version = if trained == config.parameter_count() { need.trained_weights } else { 0 };
    let rest = another_version + (shards + 2) * trained as u64 * NUMBER;
    available_memory().map_or(u64::MAX, |available| available.saturating_sub(rest) / shards)
}

/// Refuses to convert a model whose numbers do not fit into memory, where they are all at once.
pub(crate) fn check_converting(numbers: usize) -> Result<(), EngineError> {
    check("converted", numbers as u64 * NUMBER, "its numbers in 32 bits each".to_owned())
}

fn check(what: &'static str, needed: u64, parts: String) -> Result<(), EngineError> {
    match available_memory() {
        Some(available) if needed > available => {
            Err(EngineError::Memory { what, needed: bytes_text(needed), available: bytes_text(available), parts })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::adapter::Adapter;
    use crate::adapters::lora::LoraOptions;
    use crate::test_models::tiny_config;

    #[test]
    fn every_number_of_the_weights_is_held_once() {
        for tie_word_embeddings in [true, false] {
            // No column is left over in the last panels.
            let config = ModelConfig {
                tie_word_embeddings,
                vocab_size: 64,
                hidden_size: 32,
                intermediate_size: 96,
                head_dim: 16,
                ..tiny_config()
            };
            let need = MemoryNeed::of(&config, 0);
            assert_eq!(need.weights, config.parameter_count() as u64 * NUMBER);
            let layout = Layout::new(&config);
            let halves = weights_bytes(&layout, |_| Precision::Half);
            assert_eq!(halves, (need.weights + layout.vectors.len() as u64 * NUMBER) / 2);
        }
    }

    #[test]
    fn an_adapter_is_all_that_its_training_holds_beside_the_model() {
        let config = tiny_config();
        let adapter = Adapter::initial(&config, &LoraOptions::new(3, 0));
        let held = adapter.values.len() as u64 * NUMBER;
        let whole = MemoryNeed::of(&config, 0);
        let need = whole.with_adapter(&config, adapter.values.len());
        let trained = 2 * (2 * held) + shard_count(&config) as u64 * held + 2 * held;
        assert_eq!(need.training(), whole.sampling() + trained + whole.activations_recomputed);
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_the_sum() {
        let config = ModelConfig { vocab_size: 1 << 40, ..tiny_config() };
        let need = MemoryNeed::of(&config, 0);
        let error = need.check_training().unwrap_err().to_string();
        assert!(error.starts_with("to be trained the model needs") && error.contains("moments"), "{error}");
        assert!(need.check_sampling().is_err());
        let error = need.with_adapter(&config, 1 << 50).check_training().unwrap_err().to_string();
        assert!(error.contains("two versions of the adapter"), "{error}");
        MemoryNeed::of(&tiny_config(), 0).check_training().unwrap();
    }
}
