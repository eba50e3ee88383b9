//! Scores of what a run does not learn from.

mod bootstrap;
mod evaluator;
mod held_out_score;
mod options;
mod pass_at_k;
mod score_summary;
mod scores;
mod stop_rule;
mod task_scores;
mod tasks;
mod validation_comparisons;
mod validation_conversations;
mod validation_rows;
mod validation_scores;

pub use self::bootstrap::{Interval, bootstrap_interval};
pub(crate) use self::evaluator::{DataEvaluator, Evaluation, Evaluator};
pub(crate) use self::held_out_score::held_out_score;
pub use self::options::EvaluationOptions;
pub use self::pass_at_k::pass_at_k;
pub use self::score_summary::{Difference, Estimate, ScoreComparison, ScoreSummary};
pub use self::scores::Scores;
pub(crate) use self::scores::{FINAL, HELD_OUT};
pub use self::stop_rule::StopRule;
pub(crate) use self::task_scores::tags;
pub use self::task_scores::{SampleScore, TaskScore, recorded_scores};
pub(crate) use self::tasks::TaskEvaluator;
pub(crate) use self::validation_comparisons::ComparisonScores;
pub(crate) use self::validation_conversations::ConversationScores;
pub(crate) use self::validation_rows::{ACCURACY, RowEvaluator};
pub use self::validation_scores::ValidationScores;
