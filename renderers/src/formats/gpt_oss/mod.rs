//! gpt-oss's format, Harmony.
//!
//! - [`gpt_oss_format`]: the format.
//! - [`harmony_tools`]: tools as TypeScript.

pub(crate) mod gpt_oss_format;
pub(crate) mod harmony_tools;
