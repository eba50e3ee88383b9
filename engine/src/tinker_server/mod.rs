//! The embedded models behind the API that the official `tinker` SDK speaks: whoever trains and samples with it can do so
//! here, in protobuf or JSON, with SDKs from 0.22 on.
//!
//! A training run is a model of its own over a base; its requests are carried out one after another in the order of their
//! places, whatever the order in which they come, and each once however often it comes. Sampling reads weights as they
//! were when they were saved.
//!
//! - `routes`, `input`, `refusals`: what is asked under which path; how it is read; what cannot be done, in the API's words.
//! - `management`, `session_search`, `checkpoints`: what there is, over REST.
//! - `downloads`, `tar`: checkpoints' files for whoever has a link.
//! - `server`, `sessions`: what there is, and who keeps it.
//! - `futures`: results that are waited for.
//! - `training_runs`, `adapters`, `model`, `training_request`: what is asked of training runs; what they train beside a
//!   base; one at work; what its passes compute over.
//! - `sampling`, `sample_answer`, `weights_cache`: requests for samples, their answers, the weights behind them.
//! - `kept_weights`: what was saved for sampling, behind a model that agents call.
//! - `state_directory`, `names`: what outlives the process; what files may be called.
//!
//! Adapters have alpha 32 and share their base's weights. Full fine-tuning is `lora_config.rank`
//! 0, which the API does not know otherwise. Logprobs of samples are those of the
//! distribution that was sampled from, after temperature, top-k and top-p.

mod adapters;
mod checkpoints;
mod downloads;
mod futures;
mod input;
mod kept_weights;
mod management;
mod model;
mod names;
mod refusals;
mod routes;
mod sample_answer;
mod sampling;
mod server;
mod session_search;
mod sessions;
mod state_directory;
mod tar;
mod training_request;
mod training_runs;
mod weights_cache;

pub use kept_weights::KeptWeightsSampler;
pub use routes::routes;
pub use server::{TinkerBase, TinkerServer, TinkerServerOptions};
