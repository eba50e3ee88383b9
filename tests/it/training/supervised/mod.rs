//! Supervised learning, and where its data come from.

mod sft;
mod sft_sources;
