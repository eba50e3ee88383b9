//! The formats of model families.
//!
//! - [`format`], [`chunk`]: what a format writes of a conversation, and its text.
//! - [`open_format`], [`format_options`]: a format by its name.
//! - [`qwen`], [`kimi`], [`gpt_oss`], [`deepseek`], [`deepseek_v4`], [`glm`], [`llama3`], [`role_colon`]: the families.
//! - [`plain_text`], [`python_strip`], [`reasoning`]: what several share.

pub(crate) mod chunk;
pub(crate) mod deepseek;
pub(crate) mod deepseek_v4;
pub(crate) mod format;
pub(crate) mod format_options;
pub(crate) mod glm;
pub(crate) mod gpt_oss;
pub(crate) mod kimi;
pub(crate) mod llama3;
pub(crate) mod open_format;
pub(crate) mod plain_text;
pub(crate) mod python_strip;
pub(crate) mod qwen;
pub(crate) mod reasoning;
pub(crate) mod role_colon;
