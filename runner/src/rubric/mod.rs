//! Rewards by criteria: a model says of each whether an attempt meets it.

mod agreement;
mod judge;
mod known_judgements;
mod labelled;
mod options;
mod question;
mod shared_reward;
mod spending;

pub use agreement::Agreement;
pub(crate) use judge::Rubric;
pub use labelled::{JudgeOnLabels, LabelledAnswer, LabelledError, judge_labelled};
pub use options::{Criterion, JudgePrices, LabelledAnswers, RubricError, RubricOptions, SecondJudge};
pub(crate) use question::Material;
pub(crate) use shared_reward::shared_reward;
pub use spending::judges_spending;
