use crate::forward::{Activations, LayerActivations, PackedRows};
use crate::kernels::{
    AttentionForward, AttentionScratch, PackedMatrix, attend_backward, bias_backward, multiply,
    norm_and_rotate_backward, rms_norm_backward, store_keys, swiglu_backward, transposed_multiply_add,
};
use crate::weights::{Model, Weights};

/// Memory of the backward pass, kept between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackwardScratch {
    pub(crate) products: ProductScratch,
    attention: AttentionScratch,
    stream: Vec<f32>,
    normed: Vec<f32>,
    activated: Vec<f32>,
    gate_up: Vec<f32>,
    attended: Vec<f32>,
    rotated: Vec<f32>,
    values: Vec<f32>,
    query_key_value: Vec<f32>,
}

/// Memory for matrices packed on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProductScratch {
    weight: PackedMatrix,
    input: PackedMatrix,
}

impl ProductScratch {
    /// The backward pass of `output = input · weightᵀ` with `weight` `[outputs, inputs]`: writes the input's gradient
    /// and adds the weight's.
    pub(crate) fn linear_backward(
        &mut self,
        weight: &[f32],
        input: &[f32],
        output_gradient: &[f32],
        rows: usize,
        input_gradient: &mut [f32],
        weight_gradient: &mut [f32],
    ) {
        let (outputs, inputs) = (output_gradient.len() / rows, input.len() / rows);
        self.weight.pack(weight, outputs, inputs);
        multiply(output_gradient, rows, &self.weight, input_gradient);
        self.input.pack(input, rows, inputs);
        transposed_multiply_add(output_gradient, outputs, &self.input, weight_gradient);
    }
}

/// Adds to `gradient` (laid out like the weights) what `normed_output_gradient`, the gradient of what
/// [`forward`](crate::forward::forward) left for the head, means for each weight.
pub(crate) fn backward(
    weights: &Weights,
    rows: &PackedRows,
    activations: &Activations,
    normed_output_gradient: &[f32],
    scratch: &mut BackwardScratch,
    gradient: &mut [f32],
) {
    let (model, hidden) = (&weights.model, weights.model.config.hidden_size);
    let place = model.layout.final_norm.clone();
    let mut stream = std::mem::take(&mut scratch.stream);
    stream.clear();
    stream.resize(rows.len() * hidden, 0.0);
    rms_norm_backward(
        &activations.output,
        &weights.values[place.clone()],
        &activations.output_inverses,
        normed_output_gradient,
        &mut stream,
        &mut gradient[place],
    );
    for (index, layer) in activations.layers.iter().enumerate().rev() {
        feed_forward_backward(weights, index, rows, layer, scratch, &mut stream, gradient);
        attention_backward(weights, index, rows, layer, scratch, &mut stream, gradient);
    }
    let embedding = &mut gradient[model.layout.embedding.clone()];
    for (row, &token) in rows.tokens.iter().enumerate() {
        let sums = &mut embedding[token as usize * hidden..][..hidden];
        for (sum, value) in sums.iter_mut().zip(&stream[row * hidden..][..hidden]) {
            *sum += value;
        }
    }
    scratch.stream = stream;
}

/// `stream` is the gradient of the layer's output, and becomes that of what entered the feed-forward part.
fn feed_forward_backward(
    weights: &Weights,
    index: usize,
    rows: &PackedRows,
    layer: &LayerActivations,
    scratch: &mut BackwardScratch,
    stream: &mut [f32],
    gradient: &mut [f32],
) {
    let (place, count) = (&weights.model.layout.layers[index], rows.len());
    let BackwardScratch { products, activated, gate_up, normed, .. } = scratch;
    activated.resize(layer.activated.len(), 0.0);
    gate_up.resize(layer.gate_up.len(), 0.0);
    normed.resize(layer.normed_middle.len(), 0.0);

    let weight = &weights.values[place.down.clone()];
    products.linear_backward(weight, &layer.activated, stream, count, activated, &mut gradient[place.down.clone()]);
    swiglu_backward(&layer.gate_up, weights.model.config.intermediate_size, activated, gate_up);
    let weight = &weights.values[place.gate_up.clone()];
    let weight_gradient = &mut gradient[place.gate_up.clone()];
    products.linear_backward(weight, &layer.normed_middle, gate_up, count, normed, weight_gradient);
    rms_norm_backward(
        &layer.middle,
        &weights.values[place.feed_forward_norm.clone()],
        &layer.middle_inverses,
        normed,
        stream,
        &mut gradient[place.feed_forward_norm.clone()],
    );
}

/// `stream` is the gradient of what entered the feed-forward part, and becomes that of the layer's input.
fn attention_backward(
    weights: &Weights,
    index: usize,
    rows: &PackedRows,
    layer: &LayerActivations,
    scratch: &mut BackwardScratch,
    stream: &mut [f32],
    gradient: &mut [f32],
) {
    let (model, count) = (&*weights.model, rows.len());
    let place = &model.layout.layers[index];
    scratch.attended.resize(layer.attended.len(), 0.0);
    let weight = &weights.values[place.output.clone()];
    let weight_gradient = &mut gradient[place.output.clone()];
    scratch.products.linear_backward(weight, &layer.attended, stream, count, &mut scratch.attended, weight_gradient);
    sequences_backward(model, rows, layer, scratch);

    let BackwardScratch { products, rotated, query_key_value, normed, .. } = scratch;
    // The keys' norm stands behind the queries'.
    let (before_keys, keys_on) = gradient.split_at_mut(place.key_norm.start);
    norm_and_rotate_backward(
        &layer.query_key_value,
        &rows.positions,
        weights.head_norms(index),
        &model.rotation,
        &layer.head_inverses,
        rotated,
        query_key_value,
        &mut before_keys[place.query_norm.clone()],
        &mut keys_on[..place.key_norm.len()],
    );
    bias_backward(query_key_value, &mut gradient[place.query_key_value_bias.clone()]);
    normed.resize(layer.normed_input.len(), 0.0);
    let weight = &weights.values[place.query_key_value.clone()];
    let weight_gradient = &mut gradient[place.query_key_value.clone()];
    products.linear_backward(weight, &layer.normed_input, query_key_value, count, normed, weight_gradient);
    rms_norm_backward(
        &layer.input,
        &weights.values[place.input_norm.clone()],
        &layer.input_inverses,
        normed,
        stream,
        &mut gradient[place.input_norm.clone()],
    );
}

/// From the gradient of `attended` to those of `rotated` and of the values.
fn sequences_backward(model: &Model, rows: &PackedRows, layer: &LayerActivations, scratch: &mut BackwardScratch) {
    let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
    let (rotated_width, stride) = (query + key, query + 2 * key);
    let BackwardScratch { attention, attended, rotated, values, query_key_value, .. } = scratch;
    rotated.clear();
    rotated.resize(layer.rotated.len(), 0.0);
    query_key_value.clear();
    query_key_value.resize(layer.query_key_value.len(), 0.0);
    let mut keys = &layer.keys[..];
    for sequence in &rows.sequences {
        let (own_keys, later) = keys.split_at(shape.blocks(sequence.len()) * shape.key_block());
        keys = later;
        values.resize(own_keys.len(), 0.0);
        for (position, row) in sequence.clone().enumerate() {
            store_keys(shape, &layer.query_key_value[row * stride + query + key..][..key], position, values);
        }
        let place = sequence.start * rotated_width..sequence.end * rotated_width;
        let forward = AttentionForward {
            rotated: &layer.rotated[place.clone()],
            keys: own_keys,
            values,
            attended_gradient: &attended[sequence.start * query..sequence.end * query],
        };
        let value_gradient = &mut query_key_value[sequence.start * stride + query + key..];
        attend_backward(shape, forward, attention, &mut rotated[place], value_gradient, stride);
    }
}
