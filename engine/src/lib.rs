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
mod device_name;
mod engine;
mod engine_options;
mod error;
mod gguf;
mod grammars;
mod inspection;
mod kernels;
mod machine_memory;
mod model;
mod optimizer;
mod passes;
mod sampling;
mod small_files;
mod telemetry;
mod threads;
mod tinker_model;
mod training;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod test_models;

pub use adapters::lora::LoraOptions;
pub use checkpoints::conversion::{convert_model, copy_adapter, merge_adapter};
pub use device_name::Device;
pub use engine::{Engine, create_model};
pub use engine_options::EngineOptions;
pub use error::EngineError;
pub use gguf::{GgufFacts, GgufProgress, convert_gguf, converted_gguf, export_gguf, find_converted_gguf, is_gguf};
pub use grammars::GrammarLimits;
pub use grammars::vocabulary::{TokenText, Vocabulary};
pub use inspection::inspect_model::inspect_model;
pub use inspection::model_inspection::{INSPECTED_RANK, ModelInspection};
pub use kernels::square_product;
pub use machine_memory::{available_memory, bytes_text};
pub use model::architecture::Architecture;
pub use model::config::ModelConfig;
pub use model::element_type::ElementType;
pub use model::lora_module::LoraModule;
pub use model::memory::MemoryNeed;
pub use model::model_head::ModelHead;
pub use model::rope_scaling::RopeScaling;
pub use sampling::sampler::EmbeddedSampler;
pub use small_files::read_model_config;
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use tinker_model::EmbeddedTinkerModel;
pub use training::learner::EmbeddedLearner;
