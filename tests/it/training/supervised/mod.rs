//! Supervised learning, and where its data come from.

mod data_command;
mod published;
mod sft;
mod sft_sources;
