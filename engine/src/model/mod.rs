//! What a model is: its dimensions, its numbers, and what they take.
//!
//! - [`config`], [`architecture`], [`model_head`], [`rope_scaling`]: what `config.json` says.
//! - [`projection`], [`layout`]: the decoder's products, and where every number of them stands; [`lora_module`]: the
//!   matrices that those are made of.
//! - [`weights`]: one version of the numbers; [`products`]: products with it, on the processors or on a device.
//! - [`element_type`]: the types of numbers in files.
//! - [`memory`], [`pass_sizes`]: bytes that a model takes, and how much goes through it at a time.

pub(crate) mod architecture;
pub(crate) mod config;
pub(crate) mod element_type;
pub(crate) mod layout;
pub(crate) mod lora_module;
pub(crate) mod memory;
pub(crate) mod model_head;
pub(crate) mod pass_sizes;
pub(crate) mod products;
pub(crate) mod projection;
pub(crate) mod rope_scaling;
pub(crate) mod weights;
