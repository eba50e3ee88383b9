//! The embedded model host: samples from and trains a small HF-format decoder on this machine.
//!
//! - [`create_model`] writes a model directory with fresh weights, [`Engine::open`] opens one. With the [`Vocabulary`] of its
//!   tokenizer it can keep answers to a schema or grammar.
//! - [`EmbeddedSampler`] and [`EmbeddedLearner`] are its two halves. They share one set of kernels, whose result for a
//!   token does not depend on what else is in the batch: at temperature 1 the sampler's logprob of a token is the
//!   learner's, bit for bit, under the same weights.
//! - [`EmbeddedTinkerModel`]: both as a server of the Tinker API has them, for clients elsewhere.

mod adapters;
mod checkpoints;
mod device;
mod engine;
mod engine_options;
mod error;
mod gguf;
mod kernels;
mod model;
mod passes;
mod sampling;
mod telemetry;
mod threads;
mod tinker_model;
mod training;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod test_models;

pub use adapters::lora::{LoraModule, LoraOptions};
pub use checkpoints::conversion::{convert_model, copy_adapter, merge_adapter};
pub use checkpoints::inspect_model::inspect_model;
pub use checkpoints::inspection::{INSPECTED_RANK, ModelInspection};
pub use checkpoints::small_files::read_model_config;
pub use device::device_name::Device;
pub use engine::{Engine, create_model};
pub use engine_options::EngineOptions;
pub use error::EngineError;
pub use gguf::{GgufFacts, GgufProgress, convert_gguf, converted_gguf, export_gguf, find_converted_gguf, is_gguf};
pub use kernels::square_product;
pub use model::architecture::Architecture;
pub use model::config::ModelConfig;
pub use model::element_type::ElementType;
pub use model::memory::{MemoryNeed, available_memory, bytes_text};
pub use model::rope_scaling::RopeScaling;
pub use sampling::grammars::GrammarLimits;
pub use sampling::sampler::EmbeddedSampler;
pub use sampling::vocabulary::{TokenText, Vocabulary};
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use tinker_model::EmbeddedTinkerModel;
pub use training::learner::EmbeddedLearner;
