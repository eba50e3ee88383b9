//! Rewards, stored as annotation spans.

pub(crate) mod annotations;
pub(crate) mod giving;
pub(crate) mod refused;
pub(crate) mod rewarded;
pub(crate) mod rights;
