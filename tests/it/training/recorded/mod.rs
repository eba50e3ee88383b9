//! What is done again with rollouts that are recorded.

mod regrading;
mod rescoring;
