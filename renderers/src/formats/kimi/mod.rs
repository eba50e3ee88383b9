//! Kimi's formats.
//!
//! - [`kimi_format`]: the formats.
//! - [`kimi_tools`]: tools as TypeScript.

pub(crate) mod kimi_format;
pub(crate) mod kimi_tools;
