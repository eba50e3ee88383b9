//! Sweeps: a config with several values of its keys, each trained with the same seeds, and compared.

pub mod arms;
pub mod capacity;
pub mod execution;
pub mod halving;
pub mod plan;
pub mod playing;
pub mod results;
pub mod scores;
