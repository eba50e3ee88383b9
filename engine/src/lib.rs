//! The embedded model host: samples from and trains a small HF-format decoder on this machine.
//!
//! - [`create_model`] writes a model directory with fresh weights, [`Engine::open`] opens one. With the [`Vocabulary`] of its
//!   tokenizer it can keep answers to a schema or grammar.
//! - [`EmbeddedSampler`] and [`EmbeddedLearner`] are its two halves. They share one set of kernels, whose result for a
//!   token does not depend on what else is in the batch: at temperature 1 the sampler's logprob of a token is the
//!   learner's, bit for bit, under the same weights.
//! - [`EmbeddedTinkerModel`]: both as a server of the Tinker API has them, for clients elsewhere.

mod adapter;
mod adapter_files;
mod adapter_layout;
mod adjustments;
mod architecture;
mod backward;
mod checkpoint;
mod choice;
mod config;
mod conversion;
mod decode;
mod device;
mod engine;
mod error;
mod files;
mod forward;
mod generation;
mod gguf;
mod grammars;
mod head;
mod inspection;
mod kernels;
mod key_value_cache;
mod layout;
mod learner;
mod lora;
mod loss;
mod memory;
mod new_directory;
mod optimizer;
mod policy;
mod prefix_cache;
mod products;
mod prompt_scores;
mod published;
mod rope_scaling;
mod sampler;
mod scheduler;
mod shard;
mod stop_sequences;
mod telemetry;
mod threads;
mod tinker_model;
mod verification;
mod vocabulary;
mod weights;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod test_models;

pub use architecture::Architecture;
pub use config::ModelConfig;
pub use conversion::{ElementType, convert_model, merge_adapter};
pub use device::Device;
pub use engine::{Engine, EngineOptions, create_model};
pub use error::EngineError;
pub use gguf::{GgufFacts, GgufProgress, convert_gguf, find_kept_gguf, is_gguf, kept_gguf};
pub use grammars::GrammarLimits;
pub use inspection::{INSPECTED_RANK, ModelInspection, inspect_model};
pub use learner::EmbeddedLearner;
pub use lora::{LoraModule, LoraOptions};
pub use memory::{MemoryNeed, available_memory, bytes_text};
pub use rope_scaling::RopeScaling;
pub use sampler::EmbeddedSampler;
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use threads::square_product;
pub use tinker_model::EmbeddedTinkerModel;
pub use vocabulary::{TokenText, Vocabulary};
