//! Models, adapters and the optimizer's state in files.
//!
//! - [`tensor_files`]: safetensors, read and written; [`small_files`]: what describes them.
//! - [`new_directory`], [`verification`]: directories that appear whole, and are compared with their digests.
//! - [`checkpoint`], [`adapter_files`]: what is trained, in Hugging Face's form and PEFT's; [`adapter_config`]: what PEFT
//!   says of an adapter.
//! - [`adapter_archive`]: an adapter as an archive has it for Tinker's tools.
//! - [`conversion`]: other element types, and adapters merged into models.
//! - [`inspection`], [`inspect_model`]: what a directory holds.

pub(crate) mod adapter_archive;
pub(crate) mod adapter_config;
pub(crate) mod adapter_files;
pub(crate) mod checkpoint;
pub(crate) mod conversion;
pub(crate) mod inspect_model;
pub(crate) mod inspection;
pub(crate) mod new_directory;
pub(crate) mod small_files;
pub(crate) mod tensor_files;
pub(crate) mod verification;
