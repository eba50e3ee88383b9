//! Conversations that a model is trained on, and comparisons of answers: what their rows say, the file that holds them, the order they are read in.

mod comparison;
mod conversation;
mod file;
mod lines;
mod logged_call;
mod mixture;
mod order;
mod published;
mod question;
mod reasoning;
mod recorded;
mod recorded_comparisons;
mod rendering;
mod row_form;
mod row_rules;
mod scored_datum;
mod sequences;
mod soft_targets;
mod split_data;
mod written_messages;

pub use self::comparison::COMPARISON_KEYS;
pub(crate) use self::comparison::ComparisonReader;
pub(crate) use self::file::{ConversationFile, RowFile};
pub use self::lines::{LINE_LIMIT, RowUnit};
pub(crate) use self::mixture::MixturePart;
pub(crate) use self::order::{Order, Split};
pub(crate) use self::question::{FIRST, QuestionReader, SECOND, TIE, question};
pub(crate) use self::recorded::{RecordedRollouts, RecordedRules};
pub(crate) use self::recorded_comparisons::RecordedComparisons;
pub(crate) use self::rendering::Rendering;
pub use self::row_form::CONVERSATION_KEYS;
pub(crate) use self::row_rules::{FilePart, RowRules};
pub(crate) use self::scored_datum::scored_datum;
pub(crate) use self::sequences::{
    ComparedExample, Example, FirstSkipped, FoundForm, Likeliest, MarksAsText, Rendered, Sequences,
};
pub(crate) use self::soft_targets::{SoftTargetReader, SoftTargetRow, TaughtSequence};
pub(crate) use self::split_data::{HeldOutRows, SplitData};
