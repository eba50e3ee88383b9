//! What runs learn from that is there: tables, and rollouts of a store.

pub(super) mod parquet_conversations;
pub mod parquet_guard;
mod parquet_pages;
pub(super) mod recorded_rollouts;
