//! What a reward is as a span, and who may give it.

pub(crate) mod annotations;
pub(crate) mod rights;
