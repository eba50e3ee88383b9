//! LoRA adapters over weights that stay as they are.
//!
//! - [`lora`]: what is to be trained.
//! - [`adapter_layout`]: where every number of an adapter stands.
//! - [`adapter`]: one version of an adapter, and its products.
//! - [`policy`]: what is sampled from and trained: a model's weights, or an adapter over them.

pub(crate) mod adapter;
pub(crate) mod adapter_layout;
pub(crate) mod lora;
pub(crate) mod policy;
