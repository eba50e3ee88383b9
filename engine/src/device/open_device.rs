use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_cuda::{DeviceError, DeviceMatrix, Matrix};

use crate::device_name::Device;
use crate::error::EngineError;
use crate::kernels::PackedMatrix;
use crate::machine_memory::bytes_text;

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
    /// will not work again. Callers that wait for the thread get the error.
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
    pub(crate) fn release(&mut self, index: usize) {
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
}
