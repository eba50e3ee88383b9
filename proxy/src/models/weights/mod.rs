//! Weights behind served models: those that are posted to this server, and those that the store's servers have in common.
//!
//! - [`posted_weights`]: what is posted, and which version it gets.
//! - [`adapter_base`]: which whole weights an adapter is over.
//! - [`admission`]: what posted weights may replace.
//! - [`posted_files`]: whether a version's files are those that it was published with.
//! - [`model_weights`]: one model's weights, which change once at a time.
//! - [`follower`]: loads what is published and not behind a model yet.
//! - [`without_new_weights`]: what becomes of calls meanwhile.
//! - [`reports`]: what the store and `/healthz` are told of it.

pub(crate) mod adapter_base;
mod admission;
pub(crate) mod follower;
pub(crate) mod model_weights;
pub(crate) mod posted_files;
pub(crate) mod posted_weights;
#[cfg(test)]
mod protocol;
pub(crate) mod reports;
#[cfg(test)]
mod testing;
pub(crate) mod without_new_weights;
