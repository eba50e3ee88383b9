use std::ops::Range;

use crate::adapters::adapter::AdapterScratch;
use crate::kernels::{
    AttentionForward, AttentionScratch, PackedMatrix, attend_backward, bias_backward, norm_and_rotate_backward,
    rms_norm_backward, store_keys, swiglu_backward,
};
use crate::model::policy::Policy;
use crate::model::projection::Projection;
use crate::model::weights::Model;
use crate::passes::forward::{Activations, LayerActivations, PackedRows};
use crate::threads::{cut, share};

/// Memory of the backward pass, kept between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackwardScratch {
    pub(crate) products: ProductScratch,
    sequences: Vec<SequenceScratch>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    activated: Vec<f32>,
    gate_up: Vec<f32>,
    attended: Vec<f32>,
    rotated: Vec<f32>,
    query_key_value: Vec<f32>,
}

/// What one sequence's attention takes.
#[derive(Clone, Debug, Default)]
struct SequenceScratch {
    attention: AttentionScratch,
    values: Vec<f32>,
}

/// Memory for matrices packed on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProductScratch {
    input: PackedMatrix,
    pub(crate) adapter: AdapterScratch,
}

impl ProductScratch {
    /// The backward pass of one of the decoder's products, `output = input · weightᵀ` with `weight` `[outputs, inputs]`:
    /// writes the input's gradient, and adds the weight's, or the adapter's beside it, to `gradient`.
    pub(crate) fn backward(
        &mut self,
        policy: &Policy,
        projection: Projection,
        input: &[f32],
        output_gradient: &[f32],
        input_gradient: &mut [f32],
        gradient: &mut [f32],
    ) {
        policy.weights.input_gradient(projection, output_gradient, input_gradient);
        match &policy.adapter {
            Some(adapter) => {
                adapter.backward(projection, input, output_gradient, input_gradient, gradient, &mut self.adapter);
            }
            None => {
                let gradient = &mut gradient[policy.weights.model.layout.projection(projection)];
                policy.weights.add_weight_gradient(projection, input, output_gradient, &mut self.input, gradient);
            }
        }
    }
}

/// Where the gradient of some weights stands; empty where an adapter is trained over them.
fn own_gradient<'a>(policy: &Policy, gradient: &'a mut [f32], place: &Range<usize>) -> &'a mut [f32] {
    match policy.adapter {
        Some(_) => &mut [],
        None => &mut gradient[place.clone()],
    }
}

/// Adds to `gradient` (laid out like what is trained) what `normed_output_gradient`, the gradient of what
/// [`forward`](crate::passes::forward::forward) left for the head, means for each number.
pub(crate) fn backward(
    policy: &Policy,
    rows: &PackedRows,
    activations: &mut Activations,
    normed_output_gradient: &[f32],
    scratch: &mut BackwardScratch,
    gradient: &mut [f32],
) {
    let weights = &*policy.weights;
    let (model, hidden) = (&weights.model, weights.model.config.hidden_size);
    let place = &model.layout.final_norm;
    let mut stream = std::mem::take(&mut scratch.stream);
    stream.clear();
    stream.resize(rows.len() * hidden, 0.0);
    rms_norm_backward(
        &activations.output,
        &weights.vectors[place.clone()],
        &activations.output_inverses,
        normed_output_gradient,
        &mut stream,
        own_gradient(policy, gradient, place),
    );
    for index in (0..model.config.num_hidden_layers).rev() {
        let layer = activations.layer(policy, index, rows);
        feed_forward_backward(policy, index, layer, scratch, &mut stream, gradient);
        attention_backward(policy, index, rows, layer, scratch, &mut stream, gradient);
    }
    if policy.adapter.is_none() {
        embedding_backward(rows, hidden, &stream, &mut gradient[model.layout.embedding.clone()]);
    }
    scratch.stream = stream;
}

fn embedding_backward(rows: &PackedRows, hidden: usize, stream: &[f32], gradient: &mut [f32]) {
    for (row, &token) in rows.tokens.iter().enumerate() {
        let sums = &mut gradient[token as usize * hidden..][..hidden];
        for (sum, value) in sums.iter_mut().zip(&stream[row * hidden..][..hidden]) {
            *sum += value;
        }
    }
}

/// `stream` is the gradient of the layer's output, and becomes that of what entered the feed-forward part.
fn feed_forward_backward(
    policy: &Policy,
    index: usize,
    layer: &LayerActivations,
    scratch: &mut BackwardScratch,
    stream: &mut [f32],
    gradient: &mut [f32],
) {
    let weights = &*policy.weights;
    let place = &weights.model.layout.layers[index];
    let BackwardScratch { products, activated, gate_up, normed, .. } = scratch;
    activated.resize(layer.activated.len(), 0.0);
    gate_up.resize(layer.gate_up.len(), 0.0);
    normed.resize(layer.normed_middle.len(), 0.0);

    products.backward(policy, Projection::Down(index), &layer.activated, stream, activated, gradient);
    swiglu_backward(&layer.gate_up, weights.model.config.intermediate_size, activated, gate_up);
    products.backward(policy, Projection::GateUp(index), &layer.normed_middle, gate_up, normed, gradient);
    rms_norm_backward(
        &layer.middle,
        &weights.vectors[place.feed_forward_norm.clone()],
        &layer.middle_inverses,
        normed,
        stream,
        own_gradient(policy, gradient, &place.feed_forward_norm),
    );
}

/// `stream` is the gradient of what entered the feed-forward part, and becomes that of the layer's input.
fn attention_backward(
    policy: &Policy,
    index: usize,
    rows: &PackedRows,
    layer: &LayerActivations,
    scratch: &mut BackwardScratch,
    stream: &mut [f32],
    gradient: &mut [f32],
) {
    let (weights, model) = (&*policy.weights, &*policy.weights.model);
    let place = &model.layout.layers[index];
    scratch.attended.resize(layer.attended.len(), 0.0);
    let BackwardScratch { products, attended, .. } = scratch;
    products.backward(policy, Projection::Output(index), &layer.attended, stream, attended, gradient);
    sequences_backward(model, rows, layer, scratch);

    let BackwardScratch { products, rotated, query_key_value, normed, .. } = scratch;
    let norms = place.query_norm.start..place.key_norm.end;
    let norms_gradient = own_gradient(policy, gradient, &norms);
    // The keys' norm stands behind the queries', which is as long.
    let (query_gain_gradient, key_gain_gradient) = norms_gradient.split_at_mut(norms_gradient.len() / 2);
    norm_and_rotate_backward(
        &layer.query_key_value,
        &rows.positions,
        weights.head_norms(index),
        &model.rotation,
        &layer.head_inverses,
        rotated,
        query_key_value,
        query_gain_gradient,
        key_gain_gradient,
    );
    bias_backward(query_key_value, own_gradient(policy, gradient, &place.query_key_value_bias));
    normed.resize(layer.normed_input.len(), 0.0);
    let projection = Projection::QueryKeyValue(index);
    products.backward(policy, projection, &layer.normed_input, query_key_value, normed, gradient);
    rms_norm_backward(
        &layer.input,
        &weights.vectors[place.input_norm.clone()],
        &layer.input_inverses,
        normed,
        stream,
        own_gradient(policy, gradient, &place.input_norm),
    );
}

/// From the gradient of `attended` to those of `rotated` and of the values.
fn sequences_backward(model: &Model, rows: &PackedRows, layer: &LayerActivations, scratch: &mut BackwardScratch) {
    let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
    let BackwardScratch { sequences, attended, rotated, query_key_value, .. } = scratch;
    rotated.clear();
    rotated.resize(layer.rotated.len(), 0.0);
    query_key_value.clear();
    query_key_value.resize(layer.query_key_value.len(), 0.0);
    sequences.resize_with(rows.sequences.len(), SequenceScratch::default);
    let (mut keys, mut rotated, mut gradient) = (&layer.keys[..], &mut rotated[..], &mut query_key_value[..]);
    let parts = rows.sequences.iter().zip(sequences).map(|(sequence, scratch)| {
        let (own_keys, later) = keys.split_at(shape.blocks(sequence.len()) * shape.key_block());
        keys = later;
        let rotated = cut(&mut rotated, sequence.len() * (query + key));
        let gradient = cut(&mut gradient, sequence.len() * (query + 2 * key));
        SequenceBackward { sequence: sequence.clone(), keys: own_keys, scratch, rotated, gradient }
    });
    share(parts.collect(), |part| part.run(model, layer, attended));
}

/// One sequence's part of the backward pass of attention.
struct SequenceBackward<'a> {
    sequence: Range<usize>,
    keys: &'a [f32],
    scratch: &'a mut SequenceScratch,
    /// Gradient of the sequence's rows of `rotated`, and of its queries, keys and values.
    rotated: &'a mut [f32],
    gradient: &'a mut [f32],
}

impl SequenceBackward<'_> {
    fn run(self, model: &Model, layer: &LayerActivations, attended_gradient: &[f32]) {
        let Self { sequence, keys, scratch: SequenceScratch { attention, values }, rotated, gradient } = self;
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        let (rotated_width, stride) = (query + key, query + 2 * key);
        values.resize(keys.len(), 0.0);
        for (position, row) in sequence.clone().enumerate() {
            store_keys(shape, &layer.query_key_value[row * stride + query + key..][..key], position, values);
        }
        let forward = AttentionForward {
            rotated: &layer.rotated[sequence.start * rotated_width..sequence.end * rotated_width],
            keys,
            values,
            attended_gradient: &attended_gradient[sequence.start * query..sequence.end * query],
        };
        attend_backward(shape, forward, attention, rotated, &mut gradient[query + key..], stride);
    }
}
