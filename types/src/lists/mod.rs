//! Which records, and how they go in and out together.

pub(crate) mod archive;
pub(crate) mod listing;
pub(crate) mod page;
pub(crate) mod query;
