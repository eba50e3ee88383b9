//! What is done to models while they run.

mod gateway;
mod model_control;
mod named_weights;
