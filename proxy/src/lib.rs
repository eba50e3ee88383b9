//! The proxy that agents call: a wire request becomes a conversation, tokens, samples, a message and a wire response. Its
//! record is durable before the last byte of the response leaves.
//!
//! - [`Proxy`]: the served models and the store that keeps the record.
//! - [`routes`]: the HTTP routes over it.
//! - [`log_access`]: a line for each request.
//!
//! Inside, from the top; no folder imports one above it:
//!
//! - [`routes`], `endpoints`, `gateway`: what each route does with the parts of a [`Proxy`], which they alone see; the last
//!   is Agent-lightning 1.0's way to the same calls.
//! - `call`: one file a stage, each of which takes what the one before gives: admit, place, plan, sample, record, respond.
//! - `upstream`: calls of models that are not sampled here, which are forwarded.
//! - `dialects`: OpenAI's, Anthropic's, Google's and vLLM's requests, replies, streams and errors.
//! - `parts`, `state`: what calls share.
//! - `attempt`: an attempt's remaining budget, and its conversation so far.
//! - `record`: what the store keeps of a call, read again.
//! - `requests`: the attempt that a request names, its body, and what it asks for in no dialect.
//! - `models`: who answers, and whether calls are held.
//! - `retries`: whether the request came before.
//! - `reply`: what was sampled as a message, which goes to all who listen, whole or streamed.
//! - `observe`: what is counted, measured and logged when it is over.
//! - `error`: why a request fails.

mod attempt;
mod attribute_names;
mod base_url;
mod call;
mod dialects;
mod endpoints;
mod error;
mod gateway;
mod models;
mod observe;
mod options;
mod parts;
mod placed_prompt;
mod proxy;
mod record;
mod reply;
mod request_fields;
mod requests;
mod retries;
mod routes;
mod state;
mod upstream;

/// What a fuzzer runs.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::dialects::any_request::fuzz_requests;
}

pub use attempt::budget::Budget;
pub use attribute_names::UNSEEN_TOOLS;
pub use call::admit::unseen_tools;
pub use models::named_weights::NamedWeights;
pub use models::served_model::{SampledModel, ServedModel, UpstreamModel};
pub use models::weights::follower::{FollowingServer, WeightsFollower};
pub use models::weights::without_new_weights::WithoutNewWeights;
pub use observe::access_log::log_access;
pub use observe::telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use options::ProxyOptions;
pub use proxy::Proxy;
pub use requests::google_request::key_in_query;
pub use requests::large_requests::LargeRequestLimits;
pub use requests::left_out::UnknownFields;
pub use routes::{refused, routes, unknown_route};
pub use state::auxiliary_rules::{AuxiliaryRule, AuxiliaryRuleError};
pub use state::deadlines::SamplingLimits;
