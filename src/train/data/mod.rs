//! What runs learn from that is there: tables, and rollouts of a store.

pub(super) mod parquet_conversations;
pub(super) mod recorded_rollouts;
