//! `fulgurite report`: runs as a page, or the curves of one metric.

pub mod arguments;
pub mod command;
mod curves;
mod html;
mod judges;
mod parallel_coordinates;
mod reported_run;
pub mod routes;
mod transcripts;
mod what_changed;
