//! The agents' door: a wire request becomes a conversation, tokens, samples, a message and a wire response, and the
//! record of it is durable before the last byte of the response leaves.
//!
//! - [`Proxy`]: the models behind the door and the store that keeps the record.
//! - [`routes`]: the HTTP routes over it.
//! - [`log_access`]: a line for each request.
//!
//! Inside, on the way of a request:
//!
//! - `requests`: routes, the attempt that a request names, and its body.
//! - `gateway`: Agent-lightning 1.0's way to the same calls.
//! - `dialects`: OpenAI's, Anthropic's, Google's and vLLM's requests, replies, streams and errors.
//! - `models`: who answers, and whether calls are held.
//! - `upstream`: calls of models that are not sampled here, which are forwarded.
//! - `attempt`: an attempt's remaining budget, and its conversation so far.
//! - `retries`: whether the request came before.
//! - `call`: from the request to a plan of its answers, their sampling and their end.
//! - `reply`: what was sampled as a message, which goes to all who listen, whole or streamed.
//! - `record`: what the store keeps of it.
//! - `observe`: what is counted, measured and logged when it is over.

mod attempt;
mod call;
mod clock;
mod dialects;
mod error;
mod gateway;
mod models;
mod observe;
mod options;
mod proxy;
mod record;
mod reply;
mod requests;
mod retries;
mod upstream;

pub use attempt::budget::Budget;
pub use call::answer_request::unseen_tools;
pub use call::auxiliary_rules::{AuxiliaryRule, AuxiliaryRuleError};
pub use call::deadlines::SamplingLimits;
pub use dialects::field_kinds::UnknownFields;
pub use dialects::google::key_in_query;
pub use models::named_weights::NamedWeights;
pub use models::served_model::{SampledModel, ServedModel, UpstreamModel};
pub use models::weights::follower::{FollowingServer, WeightsFollower};
pub use models::weights::without_new_weights::WithoutNewWeights;
pub use observe::access_log::log_access;
pub use observe::telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use options::ProxyOptions;
pub use proxy::Proxy;
pub use record::attribute_names::UNSEEN_TOOLS;
pub use requests::large_requests::LargeRequestLimits;
pub use requests::routes::{refused, routes, unknown_route};
