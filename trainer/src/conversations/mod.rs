//! Conversations that a model is trained on: what their rows say, the file that holds them, the order they are read in.

mod conversation;
mod file;
mod lines;
mod order;
mod recorded;
mod rendering;
mod sequences;

pub(crate) use self::file::ConversationFile;
pub use self::lines::RowUnit;
pub(crate) use self::order::Split;
pub(crate) use self::recorded::{RecordedRollouts, RecordedRules};
pub(crate) use self::rendering::Rendering;
pub(crate) use self::sequences::{Example, Sequences};
