//! Compactions: a conversation whose answers, calls and results become a summary by the model that had them. The item that
//! stands for it carries the summary, so that any server here reads it and nothing has to be kept. `compact_request` asks the
//! model for it, `compact_reply` writes it, and `compacted` is what goes on.

mod compact_reply;
pub(crate) mod compact_request;
mod compacted;

pub(super) use compacted::{compacted_conversation, recorded_compaction, summary_in, summary_message};
