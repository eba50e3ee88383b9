//! Tables of objectives that learn from rewards.

pub(super) mod advantages;
pub(super) mod check_sampling;
pub(super) mod curriculum;
pub(super) mod dynamic_sampling;
pub(super) mod entropy;
pub(super) mod kl;
pub(super) mod loss;
pub(super) mod rewards;
pub(super) mod sampling_schedule;
