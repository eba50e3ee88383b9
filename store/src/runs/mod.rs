//! Training runs: their steps, checkpoints, weights, and what became of every token.

pub(crate) mod model_weights;
pub(crate) mod record;
pub(crate) mod teacher_logprobs;
pub(crate) mod totals;
pub(crate) mod unaccounted;
