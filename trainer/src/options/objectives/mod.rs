//! The keys, defaults and checks of each objective.

pub(super) mod dpo;
pub(super) mod grpo;
pub(super) mod ipo;
pub(super) mod kto;
pub(super) mod off_policy_distillation;
pub(super) mod on_policy_distillation;
pub(super) mod orpo;
pub(super) mod reward_model;
pub(super) mod sft;
pub(super) mod simpo;
pub(super) mod variant;
