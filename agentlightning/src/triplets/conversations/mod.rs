//! Conversations out of the attributes of spans, in whichever form their tracers write messages.

mod messages;
mod openai_form;
pub(super) mod part_messages;

pub use messages::{Conversation, ConversationReport, messages};
