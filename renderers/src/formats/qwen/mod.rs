//! Formats in ChatML: Qwen's generations, and Nemotron 3.
//!
//! - [`im_start`]: what they share.
//! - [`qwen3`], [`qwen3_5`], [`nemotron3`]: the formats.
//! - [`qwen_tools`]: tools and calls.

pub(crate) mod im_start;
pub(crate) mod nemotron3;
pub(crate) mod qwen3;
pub(crate) mod qwen3_5;
pub(crate) mod qwen_tools;
