//! Tables of results, for people, and the same as JSON.

pub mod evaluation;
