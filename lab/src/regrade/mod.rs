//! Recorded rollouts that are graded again: which can be, and what another grader changes.

pub mod comparison;
pub mod grading;
pub mod recorded;
