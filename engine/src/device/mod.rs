//! Where products are computed.
//!
//! - [`device_name`]: the devices that can be requested.
//! - [`open_device`]: one that is in use, and the matrices in its memory.
//! - [`products`]: the decoder's products, there or on the processors.

pub(crate) mod device_name;
pub(crate) mod open_device;
pub(crate) mod products;
