use crate::adapters::adapter::{AdapterRun, AdapterScratch, adapt};
use crate::adapters::policy::Policy;
use crate::kernels::{BLOCK, Joined, Queries, add_bias, attend, norm_and_rotate, rms_norm, store_keys, swiglu};
use crate::model::pass_sizes::SavedActivations;
use crate::model::projection::Projection;
use crate::model::weights::Model;
use crate::passes::packed_rows::{PackedRows, Segment};
use crate::threads::{cut, share};

/// What one layer's forward pass leaves for its backward pass; every list has one row per token.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerActivations {
    pub(crate) input: Vec<f32>,
    pub(crate) input_inverses: Vec<f32>,
    pub(crate) normed_input: Vec<f32>,
    pub(crate) query_key_value: Vec<f32>,
    pub(crate) head_inverses: Vec<f32>,
    pub(crate) rotated: Vec<f32>,
    /// Keys in blocks, of one segment that begins sequences after the other.
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
    scratch: LayerScratch,
}

/// Segments that others come before whose keys and values are brought together at a time: each takes memory of its whole
/// length.
pub(crate) const AT_ONCE: usize = 16;

/// Memory of one layer's forward pass that the backward pass does not need.
#[derive(Clone, Debug, Default)]
struct LayerScratch {
    adapter: AdapterScratch,
    /// Of as many segments as are attended to at once.
    gathered: Vec<Gathered>,
}

/// Keys and values of all positions up to a segment's end, which stand apart where several sequences share them.
#[derive(Clone, Debug, Default)]
struct Gathered {
    /// In blocks.
    keys: Vec<f32>,
    /// `[positions, key_width]`
    values: Vec<f32>,
}

impl Activations {
    fn resize(&mut self, model: &Model, rows: &PackedRows, kept: SavedActivations) {
        let (config, count) = (&model.config, rows.len());
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let first = rows.segments.iter().filter(|segment| segment.is_first());
        let blocks: usize = first.map(|segment| model.attention.blocks(segment.rows.len())).sum();
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
    let Activations { layers, inputs, output, output_inverses, normed_output, scratch, .. } = activations;
    weights.embed(rows.tokens.iter().copied(), output);
    for index in 0..config.num_hidden_layers {
        let layer = &mut layers[if kept == SavedActivations::Everything { index } else { 0 }];
        layer.input.copy_from_slice(output);
        if let Some(input) = inputs.get_mut(index) {
            input.copy_from_slice(output);
        }
        forward_layer(policy, index, rows, layer, scratch, output);
    }
    let gain = &weights.vectors[model.layout.final_norm.clone()];
    rms_norm(output, gain, config.rms_norm_eps, normed_output, output_inverses);
}

impl Activations {
    /// What [`forward`] left of one layer, computed once more where only its input was kept. Layers are read from the
    /// last to the first.
    pub(crate) fn layer(&mut self, policy: &Policy, index: usize, rows: &PackedRows) -> &LayerActivations {
        let Self { layers, inputs, again, scratch, .. } = self;
        let Some(input) = inputs.get(index) else { return &layers[index] };
        let layer = &mut layers[0];
        if index + 1 < inputs.len() {
            layer.input.copy_from_slice(input);
            again.resize(input.len(), 0.0);
            forward_layer(policy, index, rows, layer, scratch, again);
        }
        layer
    }
}

fn forward_layer(
    policy: &Policy,
    index: usize,
    rows: &PackedRows,
    layer: &mut LayerActivations,
    scratch: &mut LayerScratch,
    output: &mut [f32],
) {
    let LayerScratch { adapter, gathered } = scratch;
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
    attend_segments(model, rows, layer, gathered);
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

fn attend_segments(model: &Model, rows: &PackedRows, layer: &mut LayerActivations, gathered: &mut Vec<Gathered>) {
    let (shape, query) = (model.attention, model.config.query_width());
    let LayerActivations { rotated, query_key_value, keys, attended, .. } = layer;
    let (mut keys, mut attended) = (&mut keys[..], &mut attended[..]);
    let layer = Projected { rotated, query_key_value };
    let (mut firsts, mut laters) = (Vec::new(), Vec::new());
    for segment in &rows.segments {
        let attended = cut(&mut attended, segment.rows.len() * query);
        match segment.is_first() {
            true => {
                let own_keys = cut(&mut keys, shape.blocks(segment.rows.len()) * shape.key_block());
                firsts.push((segment, own_keys, attended));
            }
            false => laters.push((segment, attended)),
        }
    }
    share(firsts, |(segment, keys, attended)| layer.attend_first(model, segment, keys, attended));
    gathered.resize_with(laters.len().min(AT_ONCE), Gathered::default);
    let mut laters = laters.into_iter();
    while laters.len() > 0 {
        let some = laters.by_ref().take(AT_ONCE).zip(&mut *gathered);
        share(some.collect(), |((segment, attended), gathered): ((&Segment, &mut [f32]), &mut Gathered)| {
            layer.attend_later(model, segment, gathered, attended);
        });
    }
}

/// Rows of a layer as its attention reads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Projected<'a> {
    /// Queries and keys.
    pub(crate) rotated: &'a [f32],
    /// Queries, keys and values as they were projected.
    pub(crate) query_key_value: &'a [f32],
}

impl Projected<'_> {
    /// Of a segment that begins sequences: nothing has to be brought together.
    fn attend_first(self, model: &Model, segment: &Segment, keys: &mut [f32], attended: &mut [f32]) {
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        let (rotated_width, stride) = (query + key, query + 2 * key);
        self.store_keys(model, segment, keys);
        let rotated = &self.rotated[segment.rows.start * rotated_width..segment.rows.end * rotated_width];
        let queries = Queries { rows: rotated, stride: rotated_width, positions: 0..segment.rows.len() };
        let values = &self.query_key_value[segment.rows.start * stride + query + key..];
        let keys = Joined { numbers: keys, size: shape.key_block() };
        let values = Joined { numbers: values, size: stride * BLOCK };
        attend(shape, queries, &keys, &values, stride, &mut Vec::new(), attended);
    }

    /// Of a segment that others come before. Its positions get what they would in a sequence of their own, to the bit.
    fn attend_later(self, model: &Model, segment: &Segment, gathered: &mut Gathered, attended: &mut [f32]) {
        let (shape, query, key) = (model.attention, model.config.query_width(), model.config.key_width());
        let (rotated_width, stride) = (query + key, query + 2 * key);
        self.gather_keys(model, segment, &mut gathered.keys);
        gathered.values.clear();
        for row in segment.path() {
            gathered.values.extend_from_slice(&self.query_key_value[row * stride + query + key..][..key]);
        }
        let own = &self.rotated[segment.rows.start * rotated_width..segment.rows.end * rotated_width];
        let queries = Queries { rows: own, stride: rotated_width, positions: segment.start()..segment.length() };
        let keys = Joined { numbers: &gathered.keys, size: shape.key_block() };
        let values = Joined { numbers: &gathered.values, size: key * BLOCK };
        attend(shape, queries, &keys, &values, key, &mut Vec::new(), attended);
    }

    /// The keys of all positions up to a segment's end, in blocks.
    pub(crate) fn gather_keys(self, model: &Model, segment: &Segment, keys: &mut Vec<f32>) {
        let shape = model.attention;
        keys.resize(shape.blocks(segment.length()) * shape.key_block(), 0.0);
        self.store_keys(model, segment, keys);
    }

    fn store_keys(self, model: &Model, segment: &Segment, keys: &mut [f32]) {
        let (query, key) = (model.config.query_width(), model.config.key_width());
        for (position, row) in segment.path().enumerate() {
            store_keys(model.attention, &self.rotated[row * (query + key) + query..][..key], position, keys);
        }
    }
}
