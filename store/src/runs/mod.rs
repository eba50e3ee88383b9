//! Training runs: their steps, checkpoints, and what became of every token.

pub(crate) mod leases;
pub(crate) mod other_callers;
pub(crate) mod record;
pub(crate) mod teacher_logprobs;
pub(crate) mod totals;
pub(crate) mod trained_elsewhere;
pub(crate) mod unaccounted;
