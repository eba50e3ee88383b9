//! The database: connections, the one writer, readers, and SQL in two dialects.

pub(crate) mod aside;
pub(crate) mod dialect;
pub(crate) mod listener;
pub(crate) mod location;
pub(crate) mod migrations;
pub(crate) mod options;
pub(crate) mod patience;
pub(crate) mod readers;
pub(crate) mod rollout_cache;
pub(crate) mod signals;
pub(crate) mod sql;
pub(crate) mod telemetry;
pub(crate) mod writer;
