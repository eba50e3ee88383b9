//! Queries of a store: lists of its records, and one rollout whole.

pub mod event;
pub mod listed_rollout;
pub mod listing;
pub mod named_store;
pub mod pruning;
pub mod query_error;
pub mod rollout_reading;
pub mod sql_value;
pub mod tokenizers;

pub use self::query_error::QueryError;
