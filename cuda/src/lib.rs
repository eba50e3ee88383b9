//! The engine's large products on an NVIDIA device, by kernels of our own whose bits are those of the processor's: every
//! number is one chain of fused multiply-adds over the depth, in order.
//!
//! - [`Device`] is opened by its number and multiplies; [`Matrix`] says what, and as which of the two it is read.
//! - [`DeviceMatrix`] is a matrix that stays on the device, as weights do. Everything else is sent there and back.
//!
//! Without the feature `cuda`, which needs NVIDIA's compiler, there are the same names, and no device can be opened.

mod error;

#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
mod matrix;
#[cfg(not(feature = "cuda"))]
mod no_device;

#[cfg(feature = "cuda")]
pub use device::{Device, DeviceMatrix};
pub use error::DeviceError;
#[cfg(feature = "cuda")]
pub use matrix::Matrix;
#[cfg(not(feature = "cuda"))]
pub use no_device::{Device, DeviceMatrix, Matrix};

/// Whether the program was built with the feature, and devices can be opened.
pub const BUILT_IN: bool = cfg!(feature = "cuda");

/// Bytes of a device's memory that an open [`Device`] takes for what is sent there and back.
pub const WORKSPACE_BYTES: u64 = 3 * (WORKSPACE * size_of::<f32>()) as u64;

/// Numbers of each of three matrices that are on the device at a time: what is larger goes there in parts.
const WORKSPACE: usize = 1 << 25;
