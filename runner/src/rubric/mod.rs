//! Rewards by criteria: a model says of each whether an attempt meets it.

mod judge;
mod known_judgements;
mod options;
mod question;

pub(crate) use judge::Rubric;
pub use options::{Criterion, RubricError, RubricOptions};
pub(crate) use question::Material;
