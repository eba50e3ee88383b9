//! Scores of what a run does not learn from.

mod evaluator;
mod options;
mod scores;
mod stop_rule;
mod tasks;
mod validation_conversations;
mod validation_rows;
mod validation_scores;

pub(crate) use self::evaluator::{Evaluation, Evaluator};
pub use self::options::EvaluationOptions;
pub use self::scores::Scores;
pub(crate) use self::scores::{FINAL, HELD_OUT};
pub use self::stop_rule::StopRule;
pub(crate) use self::tasks::TaskEvaluator;
pub(crate) use self::validation_conversations::ConversationEvaluator;
pub(crate) use self::validation_rows::{ACCURACY, RowEvaluator};
pub use self::validation_scores::ValidationScores;
