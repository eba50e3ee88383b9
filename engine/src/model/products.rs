use std::sync::Arc;

use fulgurite_cuda::{DeviceMatrix, Matrix};

use crate::device::open_device::{OpenDevice, succeeded};
use crate::error::EngineError;
use crate::kernels::{self, PackedMatrix};
use crate::model::projection::Projection;
use crate::model::weights::Weights;

/// The decoder's products with its matrices, on the processors or on a device, to the same bits.
impl Weights {
    /// `output = input · weightᵀ`, of as many rows as there are.
    pub(crate) fn multiply(&self, projection: Projection, input: &[f32], output: &mut [f32]) {
        self.product(projection, input, false, output);
    }

    /// `output += input · weightᵀ`.
    pub(crate) fn multiply_add(&self, projection: Projection, input: &[f32], output: &mut [f32]) {
        self.product(projection, input, true, output);
    }

    fn product(&self, projection: Projection, input: &[f32], add: bool, output: &mut [f32]) {
        let weight = self.matrix(projection);
        match self.on_device(projection) {
            Some((device, matrix)) => {
                let (input, weight) = (Matrix::sent(input, weight.depth()), Matrix::resident(&matrix).transposed());
                device.multiply(input, weight, add, output);
            }
            None => {
                let multiply = if add { kernels::multiply_add } else { kernels::multiply };
                multiply(input, input.len() / weight.depth(), weight, output);
            }
        }
    }

    /// What the gradient of a product's output means for its input: `input_gradient = output_gradient · weight`.
    pub(crate) fn input_gradient(&self, projection: Projection, output_gradient: &[f32], input_gradient: &mut [f32]) {
        let weight = self.matrix(projection);
        match self.on_device(projection) {
            Some((device, matrix)) => {
                let (gradient, weight) = (Matrix::sent(output_gradient, weight.columns()), Matrix::resident(&matrix));
                device.multiply(gradient, weight, false, input_gradient);
            }
            None => {
                let rows = output_gradient.len() / weight.columns();
                kernels::multiply_transposed(output_gradient, rows, weight, input_gradient);
            }
        }
    }

    /// What it means for the weight: `gradient += output_gradientᵀ · input`.
    pub(crate) fn add_weight_gradient(
        &self,
        projection: Projection,
        input: &[f32],
        output_gradient: &[f32],
        scratch: &mut PackedMatrix,
        gradient: &mut [f32],
    ) {
        let weight = self.matrix(projection);
        let (inputs, outputs) = (weight.depth(), weight.columns());
        match &self.model.device {
            Some(device) => {
                let (rows, input) = (Matrix::sent(output_gradient, outputs).transposed(), Matrix::sent(input, inputs));
                device.multiply(rows, input, true, gradient);
            }
            None => {
                scratch.pack(input, input.len() / inputs, inputs);
                kernels::transposed_multiply_add(output_gradient, outputs, scratch, gradient);
            }
        }
    }

    /// A matrix on the device, if there is one. It is sent there for its first product.
    fn on_device(&self, projection: Projection) -> Option<(&OpenDevice, Arc<DeviceMatrix>)> {
        let device = self.model.device.as_deref()?;
        let index = projection.index(self.model.config.num_hidden_layers);
        Some((device, succeeded(self.resident.get(device, index, self.matrix(projection)))))
    }

    /// Sends all matrices to the device, if there is one, or says that they do not fit.
    pub(crate) fn send_to_device(&self) -> Result<(), EngineError> {
        let Some(device) = self.model.device.as_deref() else { return Ok(()) };
        self.check_device_memory(1)?;
        let layers = self.model.config.num_hidden_layers;
        for projection in Projection::all(layers) {
            self.resident.get(device, projection.index(layers), self.matrix(projection))?;
        }
        Ok(())
    }

    /// Refuses, with the sum of bytes, if the device has no room for so many further versions.
    pub(crate) fn check_device_memory(&self, versions: u64) -> Result<(), EngineError> {
        let Some(device) = self.model.device.as_deref() else { return Ok(()) };
        let numbers = |projection| self.matrix(projection).depth() * self.matrix(projection).columns();
        let numbers: usize = Projection::all(self.model.config.num_hidden_layers).map(numbers).sum();
        device.check_memory(versions, (numbers * size_of::<f32>()) as u64)
    }
}
