//! What runs learn from that is there: tables, and rollouts of a store.

pub(crate) mod parquet_conversations;
pub(crate) mod recorded_rollouts;
pub(crate) mod unpacked_lines;
