//! How much goes through the model at a time, and what a pass keeps.

use crate::model::config::ModelConfig;

/// The most shards of a batch.
pub(crate) const SHARDS: usize = 2;

/// Parameters from which on a batch is one shard: a second gradient would take too much memory, and products are large
/// enough for the threads to share each.
const ONE_SHARD: usize = 1 << 27;

/// Rows that go through the model together, unless one datum alone has more: few enough for the caches.
pub(crate) const ROWS: usize = 512;

/// Logits that are held at once: the head never keeps a row of the vocabulary for every token.
const CHUNK_LOGITS: usize = 1 << 25;

/// What a forward pass keeps for its backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedActivations {
    /// Nothing: no backward pass comes.
    Nothing,
    /// The layers' inputs, from which the backward pass computes each layer once more.
    Inputs,
    /// All that it needs.
    Everything,
}

/// Shards of a batch. The model alone decides, so that the order in which gradients are summed does not depend on the
/// threads.
pub(crate) fn shard_count(config: &ModelConfig) -> usize {
    if config.parameter_count() < ONE_SHARD { SHARDS } else { 1 }
}

/// Rows whose logits are held at once.
pub(crate) fn chunk_rows(config: &ModelConfig) -> usize {
    (CHUNK_LOGITS / config.vocab_size).clamp(64, 256)
}
