//! Queries for people: lists, sums, SQL.

pub(crate) mod drift;
pub(crate) mod hidden_secrets;
pub(crate) mod listing;
pub(crate) mod postgres_sql;
pub(crate) mod progress;
pub(crate) mod raw_sql;
pub(crate) mod sql_rows;
pub(crate) mod statistics;
pub(crate) mod summary;
