//! Archives of a whole store.

pub(crate) mod export;
pub(crate) mod import;
