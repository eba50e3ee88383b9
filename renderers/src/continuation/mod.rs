//! The token-exact continuation of a conversation.
//!
//! A client sends the whole conversation with every call, and rarely as it was: calls are spelled anew, null becomes
//! the empty string, reasoning is left out. [`RecordedTurns`] recognises a conversation by what its messages mean, so
//! that the next prompt is the recorded one, the sampled tokens as they were sampled, and the new messages after them.
//! Where that is not so it says why, and where the first difference is.

mod conversation_digest;
mod meaning;
mod next_prompt;
mod recorded_turns;
mod volatile;

pub use conversation_digest::ConversationDigest;
pub use next_prompt::{ContinuationPolicy, Continued, Departure, Fresh, NextPrompt};
pub use recorded_turns::{RecordedTurn, RecordedTurns};
pub use volatile::{VolatileDetector, VolatileRule, VolatileRules, VolatileSpan};
