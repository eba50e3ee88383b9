//! Models of a run that it does not train: a reference, teachers, a judge of pairs, and those that its agents call.

pub(crate) mod pairwise_judge;
pub(crate) mod reference;
pub(crate) mod served_models;
pub(crate) mod teachers;
