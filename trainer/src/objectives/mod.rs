//! What is learnt from a run's data.

mod auxiliary_conversations;
mod conversation_loss;
mod cross_entropy;
mod objective;
mod policy;
mod preference;
mod preference_scores;
mod reference;
mod soft_targets;
mod target_distributions;
mod trained_rows;

pub(crate) use self::auxiliary_conversations::AuxiliaryConversations;
pub(crate) use self::conversation_loss::{ConversationLoss, TokenScores, data_of};
pub(crate) use self::cross_entropy::CrossEntropy;
pub(crate) use self::objective::{Lesson, Objective, learn, trained_tokens};
pub(crate) use self::policy::CONCURRENCY;
pub(crate) use self::policy::{
    Credit, GREATEST_LOGPROB_DIFFERENCE, Kl, Minibatches, Origins, PolicyGradient, report_odd_rewards,
};
pub use self::policy::{
    FollowingTeacher, KlPenalty, PolicyMetrics, Teachers, batch_advantages, distill, penalize_kl, policy_metrics,
    rollout_metrics, split_into_substeps,
};
pub(crate) use self::preference::{Held, Preference, data_of as compared_data, fill_in};
pub(crate) use self::preference_scores::PreferenceScores;
pub use self::reference::Reference;
pub(crate) use self::soft_targets::{SoftTargetLoss, TargetsFrom, check_teacher};
