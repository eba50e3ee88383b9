//! Models behind the API that the official `tinker` SDK speaks: whoever trains and samples with it can do so here, in
//! protobuf or JSON, with SDKs from 0.22 on.
//!
//! A training run is a model of its own over a base; its requests are carried out one after another in the order of their
//! places, whatever the order in which they come, and each once however often it comes. Sampling reads weights as they
//! were when they were saved.
//!
//! - [`HostedModel`], [`HostedWeights`], [`HostedLearner`]: what the host of the models must do.
//! - `routes`, `input`, `refusals`: paths; how bodies are read; refusals in the API's shape.
//! - `tinker_server`, `registry`, `base`, `start`, `sessions`: what there is, and who keeps it.
//! - `futures`: results that are waited for.
//! - `training`, `sampling`: training runs at work, and samples from what they have saved.
//! - `management`: what there is, over REST, and checkpoints' files.
//! - `state`: what outlives the process.
//!
//! Adapters have alpha 32 and share their base's weights. Full fine-tuning is `lora_config.rank`
//! 0, which the API does not know otherwise. Logprobs of samples are those of the
//! distribution that was sampled from, after temperature, top-k and top-p.

mod base;
mod error;
mod futures;
mod host;
mod input;
mod management;
mod options;
mod refusals;
mod registry;
mod routes;
mod sampling;
mod sessions;
mod start;
mod state;
mod tinker_server;
mod training;

pub use base::TinkerBase;
pub use error::TinkerServerError;
pub use host::{FileBeginning, HostedLearner, HostedModel, HostedWeights, ModelFacts};
pub use management::downloads::SIGNED_LINK;
pub use options::TinkerServerOptions;
pub use routes::routes;
pub use sampling::named_checkpoints::NamedCheckpoints;
pub use sampling::repeated_seeds::RepeatedSeeds;
pub use sampling::saved_weights::SavedWeightsSampler;
pub use tinker_server::TinkerServer;
pub use training::stable_reinforce::StableReinforce;
