use rayon::prelude::*;

use crate::adapters::adapter::{Adapter, AdapterRun, AdapterScratch, adapt};
use crate::kernels::{Queries, add_bias, attend, norm_and_rotate, rms_norm, swiglu};
use crate::model::projection::Projection;
use crate::model::weights::Weights;
use crate::sampling::key_value_cache::KeyValueCache;

/// Multiplications from which on a layer's attention is worth another thread.
const MIN_WORK_PER_THREAD: usize = 1 << 20;

/// A sequence and the tokens that come next in it, at least one.
pub(crate) struct Extension<'a> {
    pub(crate) cache: &'a mut KeyValueCache,
    pub(crate) tokens: &'a [u32],
    /// What its rows go through beside the weights.
    pub(crate) adapter: Option<&'a Adapter>,
}

/// Memory of a decoding thread, kept between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeScratch {
    positions: Vec<usize>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    inverses: Vec<f32>,
    query_key_value: Vec<f32>,
    rotated: Vec<f32>,
    attended: Vec<f32>,
    gate_up: Vec<f32>,
    activated: Vec<f32>,
    last: Vec<f32>,
    adapter: AdapterScratch,
    pub(crate) logits: Vec<f32>,
}

/// Feeds each sequence its next tokens, all under the same weights and each under its own adapter; leaves in `scratch.logits` a row per sequence: what comes after its last token.
pub(crate) fn extend(weights: &Weights, extensions: &mut [Extension<'_>], scratch: &mut DecodeScratch) {
    let (model, config) = (&weights.model, &weights.model.config);
    let (hidden, epsilon) = (config.hidden_size, config.rms_norm_eps);
    let rows: usize = extensions.iter().map(|extension| extension.tokens.len()).sum();
    scratch.resize(weights, rows);
    scratch.positions.clear();
    for extension in extensions.iter_mut() {
        let start = extension.cache.len();
        extension.cache.make_room(model, extension.tokens.len());
        scratch.positions.extend(start..start + extension.tokens.len());
    }
    let tokens = extensions.iter().flat_map(|extension| extension.tokens.iter().copied());
    weights.embed(tokens, &mut scratch.stream);
    let runs = adapter_runs(extensions, |extension| extension.tokens.len());
    for layer in 0..config.num_hidden_layers {
        extend_layer(weights, &runs, layer, rows, extensions, scratch);
    }

    scratch.last.clear();
    let mut end = 0;
    for extension in extensions.iter_mut() {
        end += extension.tokens.len();
        extension.cache.grow(extension.tokens.len());
        scratch.last.extend_from_slice(&scratch.stream[(end - 1) * hidden..end * hidden]);
    }
    let count = extensions.len();
    let gain = &weights.vectors[model.layout.final_norm.clone()];
    let normed = &mut scratch.normed[..count * hidden];
    rms_norm(&scratch.last, gain, epsilon, normed, &mut scratch.inverses[..count]);
    scratch.logits.resize(count * config.vocab_size, 0.0);
    weights.multiply(Projection::Head, normed, &mut scratch.logits);
    let runs = adapter_runs(extensions, |_| 1);
    adapt(&runs, Projection::Head, normed, &mut scratch.logits, &mut scratch.adapter);
}

/// Neighbours with the same adapter, each with as many rows as `rows` says.
fn adapter_runs<'a>(extensions: &[Extension<'a>], rows: impl Fn(&Extension<'a>) -> usize) -> Vec<AdapterRun<'a>> {
    let mut runs: Vec<AdapterRun<'a>> = Vec::new();
    for extension in extensions {
        match runs.last_mut() {
            Some(run) if is_same(run.adapter, extension.adapter) => run.rows += rows(extension),
            _ => runs.push(AdapterRun { adapter: extension.adapter, rows: rows(extension) }),
        }
    }
    runs
}

fn is_same(left: Option<&Adapter>, right: Option<&Adapter>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => std::ptr::eq(left, right),
        _ => false,
    }
}

fn extend_layer(
    weights: &Weights,
    runs: &[AdapterRun<'_>],
    layer: usize,
    rows: usize,
    extensions: &mut [Extension<'_>],
    scratch: &mut DecodeScratch,
) {
    let (model, config) = (&*weights.model, &weights.model.config);
    let place = &model.layout.layers[layer];
    let epsilon = config.rms_norm_eps;
    let DecodeScratch { positions, stream, normed, inverses, query_key_value, rotated, adapter, .. } = scratch;

    rms_norm(stream, &weights.vectors[place.input_norm.clone()], epsilon, normed, &mut inverses[..rows]);
    let projection = Projection::QueryKeyValue(layer);
    weights.multiply(projection, normed, query_key_value);
    adapt(runs, projection, normed, query_key_value, adapter);
    add_bias(weights.projection_bias(layer), query_key_value);
    norm_and_rotate(query_key_value, positions, weights.head_norms(layer), &model.rotation, rotated, inverses);
    attend_caches(weights, layer, extensions, scratch);

    let DecodeScratch { stream, normed, inverses, attended, gate_up, activated, adapter, .. } = scratch;
    let projection = Projection::Output(layer);
    weights.multiply_add(projection, attended, stream);
    adapt(runs, projection, attended, stream, adapter);
    rms_norm(stream, &weights.vectors[place.feed_forward_norm.clone()], epsilon, normed, &mut inverses[..rows]);
    let projection = Projection::GateUp(layer);
    weights.multiply(projection, normed, gate_up);
    adapt(runs, projection, normed, gate_up, adapter);
    swiglu(gate_up, config.intermediate_size, activated);
    let projection = Projection::Down(layer);
    weights.multiply_add(projection, activated, stream);
    adapt(runs, projection, activated, stream, adapter);
}

/// Puts the new keys and values into the caches, and attends over them.
fn attend_caches(weights: &Weights, layer: usize, extensions: &mut [Extension<'_>], scratch: &mut DecodeScratch) {
    let query = weights.model.config.query_width();
    let DecodeScratch { rotated, query_key_value, attended, .. } = scratch;
    let (mut row, mut attended) = (0, &mut attended[..]);
    let mut parts = Vec::with_capacity(extensions.len());
    let mut products = 0;
    for extension in extensions {
        let count = extension.tokens.len();
        products += 2 * query * count * (extension.cache.len() + count);
        let (own, later) = attended.split_at_mut(count * query);
        parts.push((extension, row, own));
        (row, attended) = (row + count, later);
    }
    let attend = |scores: &mut Vec<f32>, (extension, row, attended): (&mut Extension<'_>, usize, &mut [f32])| {
        attend_cache(weights, layer, extension, row, rotated, query_key_value, scores, attended);
    };
    let alone = if products < MIN_WORK_PER_THREAD { parts.len() } else { 1 };
    parts.into_par_iter().with_min_len(alone).for_each_init(Vec::new, attend);
}

/// The same for one sequence, whose new tokens begin in this row.
#[allow(clippy::too_many_arguments)] // what the layer has computed so far, and where the result goes
fn attend_cache(
    weights: &Weights,
    layer: usize,
    extension: &mut Extension<'_>,
    first_row: usize,
    rotated: &[f32],
    query_key_value: &[f32],
    scores: &mut Vec<f32>,
    attended: &mut [f32],
) {
    let (shape, config) = (weights.model.attention, &weights.model.config);
    let (query, key) = (config.query_width(), config.key_width());
    let (start, cache) = (extension.cache.len(), &mut *extension.cache);
    for (index, attended) in attended.chunks_exact_mut(query).enumerate() {
        let (row, position) = (first_row + index, start + index);
        let rotated = &rotated[row * (query + key)..][..query + key];
        let value = &query_key_value[row * (query + 2 * key) + query + key..][..key];
        cache.store(shape, layer, position, &rotated[query..], value);
        let (keys, values) = (cache.keys(shape, layer), cache.values(shape, layer));
        let queries = Queries { rows: &rotated[..query], stride: query, positions: position..position + 1 };
        attend(shape, queries, &keys, &values, key, scores, attended);
    }
}

impl DecodeScratch {
    fn resize(&mut self, weights: &Weights, rows: usize) {
        let config = &weights.model.config;
        let (query, key) = (config.query_width(), config.key_width());
        self.stream.resize(rows * config.hidden_size, 0.0);
        self.normed.resize(rows * config.hidden_size, 0.0);
        self.inverses.resize(rows * (config.num_attention_heads + config.num_key_value_heads), 0.0);
        self.query_key_value.resize(rows * (query + 2 * key), 0.0);
        self.rotated.resize(rows * (query + key), 0.0);
        self.attended.resize(rows * query, 0.0);
        self.gate_up.resize(rows * 2 * config.intermediate_size, 0.0);
        self.activated.resize(rows * config.intermediate_size, 0.0);
    }
}
