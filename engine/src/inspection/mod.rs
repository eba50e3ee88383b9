//! What a model directory or a GGUF file holds, found without reading its weights.
//!
//! - [`inspect_model`]: looks at either.
//! - [`model_inspection`]: what is found.

pub(crate) mod inspect_model;
pub(crate) mod model_inspection;
