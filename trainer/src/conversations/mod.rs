//! Conversations that a model is trained on, and comparisons of answers: what their rows say, the file that holds them, the order they are read in.

mod comparison;
mod file;
mod logged_call;
mod question;
mod reasoning;
mod recorded;
mod recorded_comparisons;
mod rendering;
mod rows;
mod soft_targets;
mod split;

pub use self::comparison::COMPARISON_KEYS;
pub(crate) use self::comparison::ComparisonReader;
pub(crate) use self::file::{ConversationFile, RowFile};
pub(crate) use self::question::{FIRST, QuestionReader, SECOND, TIE, question};
pub(crate) use self::recorded::{RecordedRollouts, RecordedRules};
pub(crate) use self::recorded_comparisons::RecordedComparisons;
pub(crate) use self::rendering::Rendering;
pub use self::rows::lines::{LINE_LIMIT, RowUnit};
pub use self::rows::row_form::CONVERSATION_KEYS;
pub(crate) use self::rows::row_rules::{FilePart, RowRules};
pub(crate) use self::soft_targets::{SoftTargetReader, SoftTargetRow, TaughtSequence};
pub(crate) use self::split::mixture::MixturePart;
pub(crate) use self::split::order::{Order, Split};
pub(crate) use self::split::sequences::{
    ComparedExample, Example, FirstSkipped, FoundForm, Likeliest, MarksAsText, Rendered, Sequences,
};
pub(crate) use self::split::split_data::{HeldOutRows, SplitData};
