use std::ops::Range;

use crate::adapters::adapter::{AdapterRun, AdapterScratch, adapt};
use crate::kernels::{BLOCK, Joined, Queries, add_bias, attend, norm_and_rotate, rms_norm, store_keys, swiglu};
use crate::model::pass_sizes::SavedActivations;
use crate::model::policy::Policy;
use crate::model::projection::Projection;
use crate::model::weights::Model;
use crate::threads::{cut, share};

/// Sequences laid one after another, without padding.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedRows {
    pub(crate) tokens: Vec<u32>,
    /// Position of each token within its sequence.
    pub(crate) positions: Vec<usize>,
    /// Rows of each sequence.
    pub(crate) sequences: Vec<Range<usize>>,
}

impl PackedRows {
    pub(crate) fn push(&mut self, tokens: impl Iterator<Item = u32>) {
        let start = self.tokens.len();
        self.tokens.extend(tokens);
        self.positions.extend(0..self.tokens.len() - start);
        self.sequences.push(start..self.tokens.len());
    }

    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// What one layer's forward pass leaves for its backward pass; every list has one row per token.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerActivations {
    pub(crate) input: Vec<f32>,
    pub(crate) input_inverses: Vec<f32>,
    pub(crate) normed_input: Vec<f32>,
    pub(crate) query_key_value: Vec<f32>,
    pub(crate) head_inverses: Vec<f32>,
    pub(crate) rotated: Vec<f32>,
    /// Keys in blocks, sequence after sequence.
    pub(crate) keys: Vec<f32>,
    pub(crate) attended: Vec<f32>,
    pub(crate) middle: Vec<f32>,
    pub(crate) middle_inverses: Vec<f32>,
    pub(crate) normed_middle: Vec<f32>,
    pub(crate) gate_up: Vec<f32>,
    pub(crate) activated: Vec<f32>,
}

/// What a forward pass leaves. Its memory is found once for many passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activations {
    /// Of every layer; where not everything is kept, the first of them serves all.
    layers: Vec<LayerActivations>,
    /// Of every layer where inputs are kept.
    inputs: Vec<Vec<f32>>,
    /// Of a layer that is computed once more.
    again: Vec<f32>,
    pub(crate) output: Vec<f32>,
    pub(crate) output_inverses: Vec<f32>,
    /// What the head reads: `[tokens, hidden]`.
    pub(crate) normed_output: Vec<f32>,
    adapter: AdapterScratch,
}

impl Activations {
    fn resize(&mut self, model: &Model, rows: &PackedRows, kept: SavedActivations) {
        let (config, count) = (&model.config, rows.len());
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let blocks: usize = rows.sequences.iter().map(|sequence| model.attention.blocks(sequence.len())).sum();
        let layers = config.num_hidden_layers;
        match kept {
            // A pass with a backward pass may come again: what it needs is not given up.
            SavedActivations::Nothing => self.layers.resize_with(self.layers.len().max(1), LayerActivations::default),
            SavedActivations::Inputs => self.layers.resize_with(1, LayerActivations::default),
            SavedActivations::Everything => self.layers.resize_with(layers, LayerActivations::default),
        }
        self.inputs.resize_with(if kept == SavedActivations::Inputs { layers } else { 0 }, Vec::new);
        let needed = if kept == SavedActivations::Everything { layers } else { 1 };
        for layer in &mut self.layers[..needed] {
            layer.input.resize(count * hidden, 0.0);
            layer.input_inverses.resize(count, 0.0);
            layer.normed_input.resize(count * hidden, 0.0);
            layer.query_key_value.resize(count * (query + 2 * key), 0.0);
            layer.head_inverses.resize(count * (config.num_attention_heads + config.num_key_value_heads), 0.0);
            layer.rotated.resize(count * (query + key), 0.0);
            layer.keys.resize(blocks * model.attention.key_block(), 0.0);
            layer.attended.resize(count * query, 0.0);
            layer.middle.resize(count * hidden, 0.0);
            layer.middle_inverses.resize(count, 0.0);
            layer.normed_middle.resize(count * hidden, 0.0);
            layer.gate_up.resize(count * 2 * inner, 0.0);
            layer.activated.resize(count * inner, 0.0);
        }
        self.inputs.iter_mut().for_each(|input| input.resize(count * hidden, 0.0));
        self.output.resize(count * hidden, 0.0);
        self.output_inverses.resize(count, 0.0);
        self.normed_output.resize(count * hidden, 0.0);
    }
}

/// Runs the decoder over packed sequences, up to and including the last norm.
pub(crate) fn forward(policy: &Policy, rows: &PackedRows, kept: SavedActivations, activations: &mut Activations) {
    let weights = &*policy.weights;
    let (model, config) = (&weights.model, &weights.model.config);
    activations.resize(model, rows, kept);
    let Activations { layers, inputs, output, output_inverses, normed_output, adapter, .. } = activations;
    weights.embed(rows.tokens.iter().copied(), output);
    for index in 0..config.num_hidden_layers {
        let layer = &mut layers[if kept == SavedActivations::Everything { index } else { 0 }];
        layer.input.copy_from_slice(output);
        if let Some(input) = inputs.get_mut(index) {
            input.copy_from_slice(output);
        }
        forward_layer(policy, index, rows, layer, adapter, output);
    }
    let gain = &weights.vectors[model.layout.final_norm.clone()];
    rms_norm(output, gain, config.rms_norm_eps, normed_output, output_inverses);
}

impl Activations {
    /// What [`forward`] left of one layer, computed once more where only its input was kept. Layers are read from the
    /// last to the first.
    pub(crate) fn layer(&mut self, policy: &Policy, index: usize, rows: &PackedRows) -> &LayerActivations {
        let Self { layers, inputs, again, adapter, .. } = self;
        let Some(input) = inputs.get(index) else { return &layers[index] };
        let layer = &mut layers[0];
        if index + 1 < inputs.len() {
            layer.input.copy_from_slice(input);
            again.resize(input.len(), 0.0);
            forward_layer(policy, index, rows, layer, adapter, again);
        }
        layer
    }
}

fn forward_layer(
    policy: &Policy,
    index: usize,
    rows: &PackedRows,
    layer: &mut LayerActivations,
    adapter: &mut AdapterScratch,
    output: &mut [f32],
) {
    let weights = &*policy.weights;
    let run = AdapterRun { adapter: policy.adapter.as_deref(), rows: rows.len() };
    let (model, config) = (&*weights.model, &weights.model.config);
    let place = &model.layout.layers[index];
    let epsilon = config.rms_norm_eps;

    let gain = &weights.vectors[place.input_norm.clone()];
    rms_norm(&layer.input, gain, epsilon, &mut layer.normed_input, &mut layer.input_inverses);
    let projection = Projection::QueryKeyValue(index);
    weights.multiply(projection, &layer.normed_input, &mut layer.query_key_value);
    adapt(&[run], projection, &layer.normed_input, &mut layer.query_key_value, adapter);
    add_bias(weights.projection_bias(index), &mut layer.query_key_value);
    let norms = weights.head_norms(index);
    let (projected, inverses) = (&layer.query_key_value, &mut layer.head_inverses);
    norm_and_rotate(projected, &rows.positions, norms, &model.rotation, &mut layer.rotated, inverses);
    attend_sequences(model, rows, layer);
    layer.middle.copy_from_slice(&layer.input);
    let projection = Projection::Output(index);
    weights.multiply_add(projection, &layer.attended, &mut layer.middle);
    adapt(&[run], projection, &layer.attended, &mut layer.middle, adapter);

    let gain = &weights.vectors[place.feed_forward_norm.clone()];
    rms_norm(&layer.middle, gain, epsilon, &mut layer.normed_middle, &mut layer.middle_inverses);
    let projection = Projection::GateUp(index);
    weights.multiply(projection, &layer.normed_middle, &mut layer.gate_up);
    adapt(&[run], projection, &layer.normed_middle, &mut layer.gate_up, adapter);
    swiglu(&layer.gate_up, config.intermediate_size, &mut layer.activated);
    output.copy_from_slice(&layer.middle);
    let projection = Projection::Down(index);
    weights.multiply_add(projection, &layer.activated, output);
    adapt(&[run], projection, &layer.activated, output, adapter);
}

fn attend_sequences(model: &Model, rows: &PackedRows, layer: &mut LayerActivations) {
    let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
    let (rotated_width, stride) = (query + key, query + 2 * key);
    let LayerActivations { rotated, query_key_value, keys, attended, .. } = layer;
    let (mut keys, mut attended) = (&mut keys[..], &mut attended[..]);
    let parts = rows.sequences.iter().map(|sequence| {
        let own_keys = cut(&mut keys, shape.blocks(sequence.len()) * shape.key_block());
        (sequence.clone(), own_keys, cut(&mut attended, sequence.len() * query))
    });
    share(parts.collect(), |(sequence, keys, attended): (Range<usize>, &mut [f32], &mut [f32])| {
        let rotated = &rotated[sequence.start * rotated_width..sequence.end * rotated_width];
        for (position, row) in rotated.chunks_exact(rotated_width).enumerate() {
            store_keys(shape, &row[query..], position, keys);
        }
        let queries = Queries { rows: rotated, stride: rotated_width, positions: 0..sequence.len() };
        let values = &query_key_value[sequence.start * stride + query + key..];
        let keys = Joined { numbers: keys, size: shape.key_block() };
        let values = Joined { numbers: values, size: stride * BLOCK };
        attend(shape, queries, &keys, &values, stride, &mut Vec::new(), attended);
    });
}
