use crate::kernels::{self, PackedMatrix};
use crate::model::projection::Projection;
use crate::model::weights::Weights;

/// The decoder's products with its matrices.
impl Weights {
    /// `output = input · weightᵀ`, of as many rows as there are.
    pub(crate) fn multiply(&self, projection: Projection, input: &[f32], output: &mut [f32]) {
        let weight = self.matrix(projection);
        kernels::multiply(input, input.len() / weight.depth(), weight, output);
    }

    /// `output += input · weightᵀ`.
    pub(crate) fn multiply_add(&self, projection: Projection, input: &[f32], output: &mut [f32]) {
        let weight = self.matrix(projection);
        kernels::multiply_add(input, input.len() / weight.depth(), weight, output);
    }

    /// What the gradient of a product's output means for its input: `input_gradient = output_gradient · weight`.
    pub(crate) fn input_gradient(&self, projection: Projection, output_gradient: &[f32], input_gradient: &mut [f32]) {
        let weight = self.matrix(projection);
        let rows = output_gradient.len() / weight.columns();
        kernels::multiply_transposed(output_gradient, rows, weight, input_gradient);
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
        scratch.pack(input, input.len() / inputs, inputs);
        kernels::transposed_multiply_add(output_gradient, outputs, scratch, gradient);
    }
}
