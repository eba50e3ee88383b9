//! Models: opened, begun from others' weights, and made where they are missing.

pub mod base_model;
pub mod base_weights;
pub mod loaded_model;
pub mod model_directory;
pub mod model_or_base;
pub mod open;
pub mod service_needs;
pub mod start_weights;
