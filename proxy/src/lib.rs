//! The agents' door: a wire request becomes a conversation, tokens, samples, a message and a wire response, and the
//! record of it is durable before the last byte of the response leaves.
//!
//! - [`Proxy`]: the models behind the door and the store that keeps the record.
//! - [`routes`]: the HTTP routes over it.
//!
//! Inside: `attribution` (whose call is it), `call` (one call from prompt to record, the same for every dialect),
//! `answer` (sampled tokens to what may leave), `reply_message` (what left, as one message), `message_attributes`
//! (messages as a span tells them), `openai` (the OpenAI dialect: requests, responses, streams, errors), `gateway` (Agent-lightning 1.0's way to the same
//! calls), `response_body` (knows whether the answer was
//! wholly handed over).

mod answer;
mod attribution;
mod call;
mod error;
mod gateway;
mod message_attributes;
mod openai;
mod proxy;
mod reply_message;
mod response_body;
mod routes;

pub use proxy::{Proxy, ProxyOptions, ServedModel};
pub use routes::{routes, unknown_route};
