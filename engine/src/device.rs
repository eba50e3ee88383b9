use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_cuda::{DeviceError, DeviceMatrix, Matrix};
use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::kernels::PackedMatrix;
use crate::memory::bytes_text;

/// Where products with the weights' matrices are computed, which are nearly all of the work of a large model. Everything
/// else is on the processors. Changes no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// This machine's processors.
    #[default]
    Cpu,
    /// The CUDA device of this number, counted from 0.
    Cuda(u32),
}

impl Device {
    /// None for the processors.
    pub(crate) fn open(self) -> Result<Option<Arc<OpenDevice>>, EngineError> {
        let Self::Cuda(number) = self else { return Ok(None) };
        let failed = |source| EngineError::Device { device: self, source };
        let device = fulgurite_cuda::Device::open(number).map_err(failed)?;
        tracing::info!("products are computed on {self}, which is {}", device.name());
        Ok(Some(Arc::new(OpenDevice { name: self, device })))
    }
}

impl Display for Device {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(0) => formatter.write_str("cuda"),
            Self::Cuda(number) => write!(formatter, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = match text {
            "cpu" => return Ok(Self::Cpu),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
        };
        number.map(Self::Cuda).ok_or_else(|| format!("{text:?} is no device: \"cpu\", \"cuda\" or \"cuda:1\", say"))
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// A device that products are computed on.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    name: Device,
    device: fulgurite_cuda::Device,
}

impl OpenDevice {
    /// `product = left · right`, or that added to it, to the bits of the processors' kernels.
    ///
    /// A device that fails takes the thread along, as memory that cannot be had does: what it was to add to is spoilt, and it
    /// will not work again. Whoever waits for the thread is told.
    pub(crate) fn multiply(&self, left: Matrix<'_>, right: Matrix<'_>, add: bool, product: &mut [f32]) {
        succeeded(self.device.multiply(left, right, add, product).map_err(|source| self.error(source)));
    }

    /// Refuses, with the sum, so many versions of weights whose matrices take `bytes` if there is no room for them.
    pub(crate) fn check_memory(&self, versions: u64, bytes: u64) -> Result<(), EngineError> {
        let available = self.device.free_memory().map_err(|source| self.error(source))?;
        check_memory(self.name, versions, bytes, available)
    }

    fn error(&self, source: DeviceError) -> EngineError {
        EngineError::Device { device: self.name, source }
    }
}

/// What a device did, or the end of this thread: see [`OpenDevice::multiply`].
#[allow(clippy::panic)]
pub(crate) fn succeeded<T>(result: Result<T, EngineError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn check_memory(device: Device, versions: u64, bytes: u64, available: u64) -> Result<(), EngineError> {
    if versions * bytes <= available {
        return Ok(());
    }
    let parts = format!("{versions} x matrices {}", bytes_text(bytes));
    let (needed, available) = (bytes_text(versions * bytes), bytes_text(available));
    Err(EngineError::DeviceMemory { device, needed, available, parts })
}

/// Matrices of one version of the weights in a device's memory, each from its first product on.
#[derive(Debug)]
pub(crate) struct ResidentMatrices(Vec<Mutex<Option<Arc<DeviceMatrix>>>>);

/// A copy is made to be changed: it has nothing there yet.
impl Clone for ResidentMatrices {
    fn clone(&self) -> Self {
        Self::new(self.0.len())
    }
}

impl ResidentMatrices {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::new(None)).collect())
    }

    /// A matrix `[inputs, outputs]` as it stands on the device: `[outputs, inputs]`, row-major, in 32 bits.
    pub(crate) fn get(
        &self,
        device: &OpenDevice,
        index: usize,
        matrix: &PackedMatrix,
    ) -> Result<Arc<DeviceMatrix>, EngineError> {
        let mut place = self.0[index].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(resident) = &*place {
            return Ok(resident.clone());
        }
        let mut rows = vec![0.0; matrix.depth() * matrix.columns()];
        matrix.columns_from(0, &mut rows);
        let resident = device.device.upload(&rows, matrix.depth()).map_err(|source| device.error(source))?;
        let resident = Arc::new(resident);
        *place = Some(resident.clone());
        Ok(resident)
    }

    /// Gives up a matrix that is changed.
    pub(crate) fn forget(&mut self, index: usize) {
        *self.0[index].get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_sum() {
        check_memory(Device::Cuda(0), 2, 300 << 20, 600 << 20).unwrap();
        let error = check_memory(Device::Cuda(1), 2, 300 << 20, 599 << 20).unwrap_err().to_string();
        let expected =
            "on cuda:1 the model needs 600 MiB of memory more, and 599 MiB are available: 2 x matrices 300 MiB";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_device_is_named_as_it_is_written() {
        for (text, device) in [("cpu", Device::Cpu), ("cuda", Device::Cuda(0)), ("cuda:3", Device::Cuda(3))] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string(), text);
        }
        assert_eq!("cuda:0".parse(), Ok(Device::Cuda(0)));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:one", "CPU"] {
            let error = text.parse::<Device>().unwrap_err();
            assert!(error.contains("\"cpu\", \"cuda\" or \"cuda:1\""), "{error}");
        }
    }
}
