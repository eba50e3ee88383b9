//! Scores of what a run does not learn from, as numbers: of tasks, of sets of them, of text.

mod bootstrap;
mod held_out_score;
mod pass_at_k;
mod patience;
mod score_summary;
mod stop_rule;
mod task_scores;
mod task_set;
mod validation_scores;

pub use self::bootstrap::{Interval, bootstrap_interval};
pub(crate) use self::held_out_score::{HeldOutScore, held_out_score};
pub use self::pass_at_k::pass_at_k;
pub(crate) use self::patience::Patience;
pub use self::score_summary::{Difference, Estimate, ScoreComparison, ScoreSummary};
pub(crate) use self::task_scores::tags;
pub use self::task_scores::{SampleScore, TaskScore, recorded_scores};
pub use self::task_set::Scores;
pub(crate) use self::task_set::{FINAL, HELD_OUT};
pub use self::validation_scores::ValidationScores;
pub(crate) use self::validation_scores::{VALIDATION_BPB, VALIDATION_LOSS, VALIDATION_NLL};
