//! Tables and words that several objectives have.

pub(super) mod auxiliary_conversations;
pub(super) mod data_source;
pub(super) mod distillation;
pub(super) mod evaluation;
pub(super) mod failures;
pub(super) mod harvest;
pub(super) mod objective_name;
pub(super) mod preference;
pub(super) mod refusal;
pub(super) mod schedule;
