//! Rollouts as a step learns from them: read, judged, and what there is to say of them.

mod answer_scores;
mod collected;
mod constant_rewards;
mod failure_cause;
mod failures;
mod judgement;
mod member;
mod pairwise;
mod reading;
mod reward_check;
mod sample_answers;
mod stale_rollouts;

pub use self::answer_scores::AnswerScores;
pub(crate) use self::collected::{Collected, PassedOver};
pub use self::constant_rewards::is_constant;
pub(crate) use self::constant_rewards::{can_teach, solve_rate};
pub(crate) use self::failure_cause::{FailureCause, failure_metrics};
pub(crate) use self::judgement::judge;
pub(crate) use self::member::{LeftToTrain, Member, Phase, Policy, is_session};
pub use self::pairwise::{GroupJudge, PairwiseJudge};
pub(crate) use self::pairwise::{Judged, Pairwise};
pub(crate) use self::reading::member_of;
pub use self::reward_check::{RewardFinding, RewardOddity};
pub(crate) use self::reward_check::{findings, metrics as reward_metrics};
pub(crate) use self::sample_answers::sample_answers;
pub use self::sample_answers::{Decode, SampleAnswer};
pub use self::stale_rollouts::StaleRollouts;
