//! The agents' door: a wire request becomes a conversation, tokens, samples, a message and a wire response, and the
//! record of it is durable before the last byte of the response leaves.
//!
//! - [`Proxy`]: the models behind the door and the store that keeps the record.
//! - [`routes`]: the HTTP routes over it.
//! - [`log_access`]: a line for each request.
//!
//! Inside, on the way of a request: `incoming` is one as it came; `upstream` passes it on if its model is not sampled
//! here. `large_requests` work at what is large in turns, aside from other calls, and refuse what no prompt can be. `openai` and `anthropic` (those dialects: requests, responses, streams, errors) and
//! `gateway` (Agent-lightning 1.0's way to the same calls) make a `model_request` of what `request_body` read;
//! `whose_call` reads whose it is (by path, key or headers) and `attribution` finds that in the store; `answering` finds in the `request_log` whether it came before, and `planning` makes a
//! `call` of it for each answer, if the attempt's `budget` has something left: from prompt to record (`sampling`, `recording`) the same for every dialect. `attempt_memory` knows
//! the conversations of a running attempt, so that a prompt goes on with the tokens of the last; `attempt_memories`
//! keeps those in use, and reads others from the store (`recorded_conversation`). `answer` turns sampled tokens into
//! what may leave, `reply_message` is what left as one message, `message_attributes` tells messages as a span does.
//! `flight` lets several listen to one answer; `responding` and `response_body` hand it over, written by the dialect's
//! `reply_writer` (OpenAI's straight to `json_text`), and know whether all of it arrived. `metering` counts and measures it when it is over (`telemetry`), with
//! what became known of it on the way (`call_facts`). A model's `gate` holds its calls while it is paused, which
//! `model_control` does; `weights_loads` puts new weights behind it. `ending` cuts what is being answered short when the server ends.

mod attempt;
mod call;
mod dialects;
mod door;
mod error;
mod gateway;
mod models;
mod observe;
mod proxy;
mod record;
mod reply;
mod retries;
mod upstream;

pub use attempt::budget::Budget;
pub use call::answer_request::unseen_tools;
pub use call::auxiliary_rules::{AuxiliaryRule, AuxiliaryRuleError};
pub use call::sampling::SamplingLimits;
pub use door::large_requests::LargeRequestLimits;
pub use door::routes::{refused, routes, unknown_route};
pub use observe::access_log::log_access;
pub use observe::telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use proxy::{Proxy, ProxyOptions, SampledModel, ServedModel, UpstreamModel};
