//! Models, adapters and the optimizer's state in files.
//!
//! - [`tensor_files`]: safetensors, read and written.
//! - [`new_directory`], [`verification`]: directories that appear whole, and are compared with their digests.
//! - [`checkpoint`], [`adapter_files`]: what is trained, in Hugging Face's form and PEFT's; [`adapter_config`]: what PEFT
//!   says of an adapter.
//! - [`adapter_facts`]: what an adapter is, whatever model it is over.
//! - [`adapter_archive`]: an adapter as an archive has it for Tinker's tools.
//! - [`conversion`]: other element types, and adapters merged into models.

pub(crate) mod adapter_archive;
pub(crate) mod adapter_config;
pub(crate) mod adapter_facts;
pub(crate) mod adapter_files;
pub(crate) mod checkpoint;
pub(crate) mod conversion;
pub(crate) mod new_directory;
pub(crate) mod tensor_files;
pub(crate) mod verification;
