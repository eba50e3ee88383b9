//! `fulgurite plan`: what a run needs of a GPU, computed before anything is loaded.
//!
//! Everything here is arithmetic over a model's shape. Nothing is measured, and results say so.

pub mod changes;
pub mod gpu;
pub mod host;
pub mod job;
pub mod known_models;
pub mod learner;
pub mod model_shape;
pub mod of_config;
pub mod placement;
pub mod run_plan;
pub mod sampler;
pub mod table;
pub mod time;
