//! Rollouts as a step learns from them: run in groups, read, judged, and what there is to say of them.

mod collected;
mod collection;
mod constant_rewards;
mod failure_cause;
mod failure_options;
mod failures;
mod judgement;
mod member;
mod pairwise;
mod reading;
mod reward_check;
mod sample_answers;
mod stale_rollouts;

pub(crate) use self::collected::{Collected, PassedOver};
pub(crate) use self::collection::{GroupTasks, Plan, check, collect, ended_members, enqueue, gather, new_rollouts};
pub use self::constant_rewards::is_constant;
pub(crate) use self::constant_rewards::{can_teach, solve_rate};
pub(crate) use self::failure_cause::failure_metrics;
pub use self::failure_options::FailureOptions;
pub use self::failures::Failures;
pub(crate) use self::member::{LeftToTrain, Member, Phase, Policy, is_session};
pub use self::pairwise::{GroupJudge, PairwiseJudge};
pub(crate) use self::pairwise::{Judged, Pairwise};
pub use self::reading::RewardRules;
pub(crate) use self::reading::member_of;
pub use self::reward_check::{RewardFinding, RewardOddity};
pub(crate) use self::reward_check::{findings, metrics as reward_metrics};
pub(crate) use self::sample_answers::sample_answers;
pub use self::sample_answers::{Decode, SampleAnswer};
pub use self::stale_rollouts::StaleRollouts;
