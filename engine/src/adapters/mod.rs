//! LoRA adapters over weights that stay as they are.
//!
//! - [`lora`]: what is to be trained.
//! - [`adapter_layout`]: where every number of an adapter stands.
//! - [`adapter`]: one version of an adapter, and its products.

pub(crate) mod adapter;
pub(crate) mod adapter_layout;
pub(crate) mod lora;
