//! What tinker-cookbook's `parse_response` makes of sampled tokens, faults included: for results that must be held
//! against its own. Everything else reads by [`StreamParser`](crate::StreamParser).
//!
//! - [`parse_as_cookbook()`]: what was sampled, by the family of a renderer.
//! - `qwen`, `glm`, `dsml`, `sections`, `harmony`, `role_colon`: the families; `blocks`: what they share.
//! - `draft`, [`CookbookMessage`]: a message while it is put together, and whole.

mod blocks;
mod cookbook_message;
mod draft;
mod dsml;
mod glm;
mod harmony;
mod parse_as_cookbook;
mod qwen;
mod role_colon;
mod sections;

pub use cookbook_message::CookbookMessage;
pub use parse_as_cookbook::parse_as_cookbook;
