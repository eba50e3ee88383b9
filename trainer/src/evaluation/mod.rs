//! What a run is scored on: tasks, conversations, comparisons or rows of a corpus that it does not learn from.

mod evaluator;
mod tasks;
mod validation_comparisons;
mod validation_conversations;
mod validation_rows;

pub(crate) use self::evaluator::{DataEvaluator, Evaluation, Evaluator};
pub(crate) use self::tasks::TaskEvaluator;
pub(crate) use self::validation_comparisons::ComparisonScores;
pub(crate) use self::validation_conversations::ConversationScores;
pub(crate) use self::validation_rows::{ACCURACY, RowEvaluator};
