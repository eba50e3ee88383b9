//! What a report of runs says beyond their pages, and metrics as pictures.

pub mod curve_files;
pub mod curves;
mod judges;
pub(crate) mod routes;
pub mod summary;
mod transcripts;
mod what_changed;
