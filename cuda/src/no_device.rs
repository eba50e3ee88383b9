use std::marker::PhantomData;

use crate::DeviceError;

/// A device that multiplies. In this build there is none.
#[derive(Debug)]
pub enum Device {}

/// A matrix that stays on a device.
#[derive(Debug)]
pub enum DeviceMatrix {}

/// A matrix as one of the two of a product.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a>(PhantomData<&'a [f32]>);

impl Device {
    /// Refused: this program was built without CUDA.
    pub fn open(_: u32) -> Result<Self, DeviceError> {
        Err(DeviceError::NotBuilt)
    }

    /// The device's own name.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// Bytes of its memory that are free now.
    pub fn free_memory(&self) -> Result<u64, DeviceError> {
        match *self {}
    }

    /// Puts a row-major matrix with rows of `width` into the device's memory.
    pub fn upload(&self, _: &[f32], _: usize) -> Result<DeviceMatrix, DeviceError> {
        match *self {}
    }

    /// `product = left · right`, or that added to it.
    pub fn multiply(&self, _: Matrix<'_>, _: Matrix<'_>, _: bool, _: &mut [f32]) -> Result<(), DeviceError> {
        match *self {}
    }
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with rows of `width` that is sent to the device.
    pub fn sent(_: &'a [f32], _: usize) -> Self {
        Self(PhantomData)
    }

    /// A matrix that is there already.
    pub fn resident(matrix: &'a DeviceMatrix) -> Self {
        match *matrix {}
    }

    /// Its transpose, without moving a number.
    pub fn transposed(self) -> Self {
        self
    }
}
