//! Runs as a page of HTML, and metrics as pictures.

pub mod curves;
pub mod html;
mod judges;
pub mod parallel_coordinates;
pub mod reported_run;
pub(crate) mod routes;
mod transcripts;
mod what_changed;
