//! Where products are computed.
//!
//! - [`open_device`]: a device that is in use, and the matrices in its memory.

pub(crate) mod open_device;
