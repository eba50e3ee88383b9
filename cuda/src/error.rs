/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// This program was built without the feature `cuda`.
    #[error(
        "this program was built without CUDA: build it where NVIDIA's compiler is by \
         `cargo build --release --features fulgurite-cuda/cuda`, or set the device to \"cpu\""
    )]
    NotBuilt,
    /// NVIDIA's driver cannot be loaded.
    #[error("NVIDIA's driver is not to be had ({message}): install it, or set the device to \"cpu\"")]
    NoDriver {
        /// What the system says.
        message: String,
    },
    /// The driver is older than the toolkit that the kernels were compiled by.
    #[error(
        "NVIDIA's driver serves CUDA {driver}, and this program was built with CUDA {toolkit}: update the driver, or build \
         with an older toolkit"
    )]
    DriverTooOld {
        /// The newest CUDA that the driver serves.
        driver: String,
        /// The toolkit's release.
        toolkit: String,
    },
    /// There is no device of this number.
    #[error("there is no CUDA device {number}: the driver shows {count} (CUDA_VISIBLE_DEVICES limits them)")]
    NoDevice {
        /// The number that was asked for.
        number: u32,
        /// How many there are, counted from 0.
        count: u32,
    },
    /// The kernels were compiled for other kinds of devices.
    #[error(
        "{device} is of compute capability {capability}, for which CUDA {toolkit} has compiled nothing: build with a toolkit \
         that knows the device"
    )]
    UnknownArchitecture {
        /// The device's name.
        device: String,
        /// As `9.0`.
        capability: String,
        /// The toolkit's release.
        toolkit: String,
    },
    /// The device's memory is full.
    #[error(
        "the device has {free} bytes of memory free, and {needed} are needed: end what else uses it, or set the device to \"cpu\""
    )]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that were free then.
        free: u64,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({code}): {message}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The result's number.
        code: i32,
        /// The result's name.
        name: String,
        /// What the driver says of it.
        message: String,
    },
}
