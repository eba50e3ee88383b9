use serde::Serialize;

use crate::config::ModelConfig;
use crate::forward::Kept;
use crate::shard::{ROWS, shard_count};
use crate::{EngineError, head};

const NUMBER: u64 = size_of::<f32>() as u64;

/// Bytes of memory that a model takes here, as they add up. All numbers are held in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// One version of the weights.
    pub weights: u64,
    /// Its matrices once more, packed for products.
    pub packed: u64,
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
    /// One version of the adapter, if that is what is trained, ready for use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<u64>,
}

impl MemoryNeed {
    /// Of a model, trained on sequences of at most `sequence` tokens, and of a sampler that keeps nothing for later prompts.
    pub fn of(config: &ModelConfig, sequence: usize) -> Self {
        let parameters = config.parameter_count() as u64;
        let untied_again = if config.tie_word_embeddings { config.vocab_size * config.hidden_size } else { 0 } as u64;
        let embedding = (config.vocab_size * config.hidden_size) as u64;
        let shards = shard_count(config) as u64;
        let rows = sequence.max(ROWS);
        Self {
            weights: parameters * NUMBER,
            // The embedding is not packed, a tied head is.
            packed: (parameters - embedding + untied_again) * NUMBER,
            gradients: shards * parameters * NUMBER,
            moments: 2 * parameters * NUMBER,
            activations: shards * activation_bytes(config, rows, Kept::Everything),
            activations_recomputed: shards * activation_bytes(config, rows, Kept::Inputs),
            prefix_cache: 0,
            adapter: None,
        }
    }

    /// The same, where an adapter of so many numbers is trained over the model, which is then there once.
    pub(crate) fn with_adapter(self, numbers: usize) -> Self {
        let numbers = numbers as u64;
        Self {
            gradients: self.gradients / self.weights * numbers * NUMBER,
            moments: 2 * numbers * NUMBER,
            // Its matrices are packed, too.
            adapter: Some(2 * numbers * NUMBER),
            ..self
        }
    }

    /// To sample from one version.
    pub fn sampling(&self) -> u64 {
        self.version() + self.prefix_cache
    }

    /// To train all weights, or the adapter, while the version before is sampled from. The learner keeps all activations if
    /// there is room for them, and this counts those that it cannot do without.
    pub fn training(&self) -> u64 {
        self.sampling() + self.trained_beside() + self.gradients + self.moments + self.activations_recomputed
    }

    /// What is there beside the version of the weights that is sampled from: another one, or two of the adapter.
    fn trained_beside(&self) -> u64 {
        self.adapter.map_or(self.version(), |adapter| 2 * adapter)
    }

    /// One version of the weights, ready for use.
    fn version(&self) -> u64 {
        self.weights + self.packed
    }

    pub(crate) fn check_sampling(&self) -> Result<(), EngineError> {
        let parts = format!(
            "weights {} + packed for products {} + prefix cache {}",
            mebibytes(self.weights),
            mebibytes(self.packed),
            mebibytes(self.prefix_cache)
        );
        check("sampled from", self.sampling(), parts)
    }

    /// Once one version is there, from which nothing has been sampled yet.
    pub(crate) fn check_training(&self) -> Result<(), EngineError> {
        let parts = format!(
            "{} {} + gradients {} + the optimizer's moments {} + activations {} + prefix cache {}",
            if self.adapter.is_some() { "two versions of the adapter" } else { "another version of the weights" },
            mebibytes(self.trained_beside()),
            mebibytes(self.gradients),
            mebibytes(self.moments),
            mebibytes(self.activations_recomputed),
            mebibytes(self.prefix_cache)
        );
        check("trained", self.training() - self.version(), parts)
    }
}

/// Bytes that a pass over so many rows takes in one shard, forth and back.
pub(crate) fn activation_bytes(config: &ModelConfig, rows: usize, kept: Kept) -> u64 {
    let (hidden, inner, layers) = (config.hidden_size, config.intermediate_size, config.num_hidden_layers);
    let (query, key) = (config.query_width(), config.key_width());
    let layer = 4 * hidden + (query + 2 * key) + (query + key) + key + query + 3 * inner;
    let kept_of_layers = match kept {
        Kept::Nothing => layer,
        Kept::Inputs => layers * hidden + layer,
        Kept::Everything => layers * layer,
    };
    // The backward pass has as much of one layer again.
    let per_row = (kept_of_layers + layer + 3 * hidden) as u64;
    let logits = (head::chunk_rows(config).min(rows) * config.vocab_size) as u64;
    (rows as u64 * per_row + logits) * NUMBER
}

/// Bytes that each shard's activations may take of what is available now, once the rest of what training takes is there.
pub(crate) fn activation_budget(config: &ModelConfig, trained: usize) -> u64 {
    let need = MemoryNeed::of(config, 0);
    let shards = shard_count(config) as u64;
    let another_version = if trained == config.parameter_count() { need.version() } else { 0 };
    let rest = another_version + (shards + 2) * trained as u64 * NUMBER;
    available_memory().map_or(u64::MAX, |available| available.saturating_sub(rest) / shards)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

fn check(what: &'static str, needed: u64, parts: String) -> Result<(), EngineError> {
    match available_memory() {
        Some(available) if needed > available => {
            Err(EngineError::Memory { what, needed: mebibytes(needed), available: mebibytes(available), parts })
        }
        _ => Ok(()),
    }
}

/// Bytes that can be taken without swapping, where the system tells (Linux).
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoraOptions;
    use crate::adapter::Adapter;
    use crate::layout::Layout;
    use crate::test_models::tiny_config;
    use crate::weights::{Model, Weights};

    #[test]
    fn the_sum_is_that_of_what_is_held() {
        for tie_word_embeddings in [true, false] {
            let config = ModelConfig { tie_word_embeddings, ..tiny_config() };
            let need = MemoryNeed::of(&config, 0);
            let model = std::sync::Arc::new(Model::new(config));
            let values = vec![0.0; Layout::new(&model.config).length];
            let weights = Weights::new(model, values);
            assert_eq!(need.weights, weights.values.len() as u64 * NUMBER);
            // The embedding is read row by row; the head is a matrix of products, tied or not.
            let layout = &weights.model.layout;
            let beside_the_ends: u64 = layout.tensors[1..]
                .iter()
                .filter(|tensor| tensor.name != "lm_head.weight")
                .map(|tensor| tensor.place.len() as u64)
                .sum();
            assert_eq!(need.packed, (beside_the_ends + layout.head.len() as u64) * NUMBER);
        }
    }

    #[test]
    fn an_adapter_is_all_that_its_training_holds_beside_the_model() {
        let config = tiny_config();
        let adapter = Adapter::fresh(&config, &LoraOptions::new(3, 0));
        let held = adapter.values.len() as u64 * NUMBER;
        let whole = MemoryNeed::of(&config, 0);
        let need = whole.with_adapter(adapter.values.len());
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
        let error = need.with_adapter(1 << 50).check_training().unwrap_err().to_string();
        assert!(error.contains("two versions of the adapter"), "{error}");
        MemoryNeed::of(&tiny_config(), 0).check_training().unwrap();
    }
}
