//! What is done to models while they run.

mod adapters;
mod gateway;
mod model_control;
mod named_weights;
