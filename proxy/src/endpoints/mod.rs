//! What each route does with the parts of the proxy: read by a dialect, answered or forwarded.
//!
//! - [`unserved_routes`]: what there is elsewhere, and not here.
//! - [`openai`], [`responses`], [`compaction`], [`anthropic`], [`google`]: model calls in the dialects of their clients.
//! - [`vllm_generate`], [`vllm_tokenizing`], [`vllm_control`]: vLLM's own.
//! - [`listed_models`]: the values that lists of models show.
//! - [`model_routes`]: served models, held and given new weights.

pub(crate) mod anthropic;
pub(crate) mod compaction;
pub(crate) mod google;
pub(crate) mod listed_models;
pub(crate) mod model_routes;
pub(crate) mod openai;
pub(crate) mod responses;
pub(crate) mod unserved_routes;
pub(crate) mod vllm_control;
pub(crate) mod vllm_generate;
pub(crate) mod vllm_tokenizing;
