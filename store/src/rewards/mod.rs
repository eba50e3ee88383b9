//! Rewards: given, and attempts in the order in which they got some.

pub(crate) mod giving;
pub(crate) mod rewarded;
