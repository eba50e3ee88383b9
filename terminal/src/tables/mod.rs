//! Results as lines for people, and some of them as JSON.

pub mod data;
pub mod evaluation;
pub mod regrading;
pub mod rescoring;
pub mod runs;
pub mod stats;
pub mod sweep;
