//! Commands that read stores, and those that put records in and out.

mod queries;
mod store_commands;
mod transcripts;
mod triplets;
