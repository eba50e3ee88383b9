//! Conversations that a model is trained on, and comparisons of answers: what their rows say, the file that holds them, the order they are read in.

mod comparison;
mod conversation;
mod file;
mod lines;
mod logged_call;
mod order;
mod question;
mod recorded;
mod recorded_comparisons;
mod rendering;
mod sequences;
mod soft_targets;
mod split_data;

pub use self::comparison::COMPARISON_KEYS;
pub(crate) use self::comparison::ComparisonReader;
pub use self::conversation::row_shape;
pub(crate) use self::file::{ConversationFile, RowFile};
pub use self::lines::RowUnit;
pub(crate) use self::order::Split;
pub(crate) use self::question::{FIRST, QuestionReader, SECOND, TIE, question};
pub(crate) use self::recorded::{RecordedRollouts, RecordedRules};
pub(crate) use self::recorded_comparisons::RecordedComparisons;
pub(crate) use self::rendering::Rendering;
pub(crate) use self::sequences::{ComparedExample, Example, Likeliest, MarksAsText, Sequences};
pub(crate) use self::soft_targets::{SoftTargetReader, SoftTargetRow, TaughtSequence};
pub(crate) use self::split_data::SplitData;
