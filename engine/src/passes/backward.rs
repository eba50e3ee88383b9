use std::ops::Range;

use crate::adapters::adapter::AdapterScratch;
use crate::adapters::policy::Policy;
use crate::kernels::{
    AttentionForward, AttentionScratch, PackedMatrix, attend_backward, bias_backward, norm_and_rotate_backward,
    rms_norm_backward, store_keys, swiglu_backward,
};
use crate::model::projection::Projection;
use crate::model::weights::Model;
use crate::passes::forward::{AT_ONCE, Activations, LayerActivations, Projected};
use crate::passes::packed_rows::{PackedRows, Segment};
use crate::threads::{cut, share};

/// Memory of the backward pass, kept between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackwardScratch {
    pub(crate) products: ProductScratch,
    segments: Vec<SegmentScratch>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    activated: Vec<f32>,
    gate_up: Vec<f32>,
    attended: Vec<f32>,
    rotated: Vec<f32>,
    query_key_value: Vec<f32>,
}

/// What one segment's attention takes.
#[derive(Clone, Debug, Default)]
struct SegmentScratch {
    attention: AttentionScratch,
    values: Vec<f32>,
    /// Of a segment that others come before.
    gathered: GatheredBackward,
}

/// Rows of all positions up to a segment's end, and their gradients.
#[derive(Clone, Debug, Default)]
struct GatheredBackward {
    keys: Vec<f32>,
    rotated: Vec<f32>,
    attended_gradient: Vec<f32>,
    rotated_gradient: Vec<f32>,
    /// `[positions, key_width]`
    value_gradient: Vec<f32>,
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
    segments_backward(model, rows, layer, scratch);

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
fn segments_backward(model: &Model, rows: &PackedRows, layer: &LayerActivations, scratch: &mut BackwardScratch) {
    let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
    let BackwardScratch { segments: scratches, attended, rotated, query_key_value, .. } = scratch;
    rotated.clear();
    rotated.resize(layer.rotated.len(), 0.0);
    query_key_value.clear();
    query_key_value.resize(layer.query_key_value.len(), 0.0);
    let (firsts, laters): (Vec<&Segment>, Vec<&Segment>) = rows.segments.iter().partition(|segment| segment.is_first());
    scratches.resize_with(firsts.len().max(laters.len().min(AT_ONCE)), SegmentScratch::default);

    let (mut keys, mut row) = (&layer.keys[..], 0);
    let (mut rotated_after, mut gradient_after) = (&mut rotated[..], &mut query_key_value[..]);
    let parts = firsts.into_iter().zip(&mut *scratches).map(|(segment, scratch)| {
        let (own_keys, later) = keys.split_at(shape.blocks(segment.rows.len()) * shape.key_block());
        keys = later;
        cut(&mut rotated_after, (segment.rows.start - row) * (query + key));
        cut(&mut gradient_after, (segment.rows.start - row) * (query + 2 * key));
        row = segment.rows.end;
        let rotated = cut(&mut rotated_after, segment.rows.len() * (query + key));
        let gradient = cut(&mut gradient_after, segment.rows.len() * (query + 2 * key));
        FirstBackward { segment, keys: own_keys, scratch, rotated, gradient }
    });
    share(parts.collect(), |part| part.run(model, layer, attended));
    for some in laters.chunks(AT_ONCE) {
        let parts = some.iter().copied().zip(&mut *scratches);
        share(parts.collect(), |(segment, scratch)| scratch.run_later(model, segment, layer, attended));
        // One after another, so that the order of the sums does not depend on the threads.
        for (segment, scratch) in some.iter().zip(&*scratches) {
            scratch.gathered.add_to_rows(model, segment, rotated, query_key_value);
        }
    }
}

/// The backward pass of attention within a segment that begins sequences, into its rows.
struct FirstBackward<'a> {
    segment: &'a Segment,
    keys: &'a [f32],
    scratch: &'a mut SegmentScratch,
    /// Gradient of the segment's rows of `rotated`, and of its queries, keys and values.
    rotated: &'a mut [f32],
    gradient: &'a mut [f32],
}

impl FirstBackward<'_> {
    fn run(self, model: &Model, layer: &LayerActivations, attended_gradient: &[f32]) {
        let Self { segment, keys, scratch, rotated, gradient } = self;
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        let (rotated_width, stride) = (query + key, query + 2 * key);
        scratch.gather_values(model, segment, layer);
        let rows = &segment.rows;
        let forward = AttentionForward {
            rotated: &layer.rotated[rows.start * rotated_width..rows.end * rotated_width],
            keys,
            values: &scratch.values,
            attended_gradient: &attended_gradient[rows.start * query..rows.end * query],
            first: 0,
        };
        attend_backward(shape, forward, &mut scratch.attention, rotated, &mut gradient[query + key..], stride);
    }
}

impl SegmentScratch {
    /// The backward pass of a segment that others come before, into memory of its own: several add to the rows that they
    /// share.
    fn run_later(&mut self, model: &Model, segment: &Segment, layer: &LayerActivations, attended_gradient: &[f32]) {
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        let rotated_width = query + key;
        self.gather_values(model, segment, layer);
        let Self { attention, values, gathered } = self;
        let projected = Projected { rotated: &layer.rotated, query_key_value: &layer.query_key_value };
        projected.gather_keys(model, segment, &mut gathered.keys);
        gathered.rotated.clear();
        for row in segment.path() {
            gathered.rotated.extend_from_slice(&layer.rotated[row * rotated_width..][..rotated_width]);
        }
        let zeros = |numbers: &mut Vec<f32>, count: usize| {
            numbers.clear();
            numbers.resize(count, 0.0);
        };
        zeros(&mut gathered.attended_gradient, segment.start() * query);
        let rows = &segment.rows;
        gathered.attended_gradient.extend_from_slice(&attended_gradient[rows.start * query..rows.end * query]);
        zeros(&mut gathered.rotated_gradient, segment.length() * rotated_width);
        zeros(&mut gathered.value_gradient, segment.length() * key);
        let GatheredBackward { keys, rotated, attended_gradient, rotated_gradient, value_gradient } = gathered;
        let forward = AttentionForward { rotated, keys, values, attended_gradient, first: segment.start() };
        attend_backward(shape, forward, attention, rotated_gradient, value_gradient, key);
    }

    /// The values of all positions up to a segment's end, in blocks.
    fn gather_values(&mut self, model: &Model, segment: &Segment, layer: &LayerActivations) {
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        self.values.resize(shape.blocks(segment.length()) * shape.key_block(), 0.0);
        for (position, row) in segment.path().enumerate() {
            let value = &layer.query_key_value[row * (query + 2 * key) + query + key..][..key];
            store_keys(shape, value, position, &mut self.values);
        }
    }
}

impl GatheredBackward {
    /// Adds what its segment means for each row.
    fn add_to_rows(&self, model: &Model, segment: &Segment, rotated: &mut [f32], query_key_value: &mut [f32]) {
        let (query, key) = (model.config.query_width(), model.config.key_width());
        let add = |sums: &mut [f32], values: &[f32]| sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        for (position, row) in segment.path().enumerate() {
            let from = &self.rotated_gradient[position * (query + key)..][..query + key];
            add(&mut rotated[row * (query + key)..][..query + key], from);
            let values = &self.value_gradient[position * key..][..key];
            add(&mut query_key_value[row * (query + 2 * key) + query + key..][..key], values);
        }
    }
}
