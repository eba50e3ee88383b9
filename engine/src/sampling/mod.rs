//! Answers, token by token.
//!
//! - [`sampler`]: the half of an engine that samples.
//! - [`adapter_sampler`]: the same, from an adapter over its weights.
//! - [`scheduler`]: requests that join and leave a batch between steps.
//! - [`generation`], [`decode`]: one request's answer; a step of several.
//! - [`choice`], [`adjustments`]: how a token is chosen, and what changes its distribution.
//! - [`stop_sequences`]: what ends an answer.
//! - [`key_value_cache`], [`prefix_cache`]: keys and values, and those that prompts share.
//! - [`published`]: the weights that are sampled from.
//! - [`prompt_scores`]: how likely a prompt is.

pub(crate) mod adjustments;
pub(crate) mod choice;
pub(crate) mod decode;
pub(crate) mod generation;
pub(crate) mod key_value_cache;
pub(crate) mod prefix_cache;
pub(crate) mod prompt_scores;
pub(crate) mod published;
pub(crate) mod sampler;
pub(crate) mod scheduler;
pub(crate) mod stop_sequences;
