//! Weights that are named by a run, a checkpoint or a directory: exported, and put back behind a model that is served.

pub mod export;
pub mod named_weights;
pub mod rollback;
