use std::ops::Range;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::adapters::adapter_layout::{AdaptedProjection, AdapterLayout};
use crate::adapters::lora::{LoraOptions, LoraScaling};
use crate::error::EngineError;
use crate::kernels::{PackedMatrix, multiply, multiply_add, transposed_multiply_add};
use crate::model::config::ModelConfig;
use crate::model::memory::MemoryNeed;
use crate::model::projection::Projection;

/// One version of a LoRA adapter: the numbers as they are saved, and a copy packed for the forward pass.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) layout: Arc<AdapterLayout>,
    pub(crate) strength: Strength,
    pub(crate) values: Vec<f32>,
    packed: Vec<PackedProjection>,
}

/// What an adapter's products are multiplied with, as its configuration has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Strength {
    pub(crate) alpha: f64,
    pub(crate) scaling: LoraScaling,
}

/// The matrices of one adapted product, packed for products from the left.
#[derive(Clone, Debug, Default)]
struct PackedProjection {
    /// Of all modules: `[inputs, modules * rank]`.
    a: PackedMatrix,
    /// Of each module: `[rank, columns]`.
    b: Vec<PackedMatrix>,
}

/// Memory for the products of adapters, kept between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdapterScratch {
    reduced: Vec<f32>,
    reduced_gradient: Vec<f32>,
    reduced_part: Vec<f32>,
    part_gradient: Vec<f32>,
    columns: Vec<f32>,
    matrix: PackedMatrix,
}

/// Rows one after another that go through the same adapter, or through none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdapterRun<'a> {
    pub(crate) adapter: Option<&'a Adapter>,
    pub(crate) rows: usize,
}

/// Adds to `output`, a product of `input`, what each run's adapter says. What a row gets does not depend on how the rows
/// are cut into runs.
pub(crate) fn adapt(
    runs: &[AdapterRun<'_>],
    projection: Projection,
    input: &[f32],
    output: &mut [f32],
    scratch: &mut AdapterScratch,
) {
    let mut start = 0;
    for run in runs {
        let rows = start..start + run.rows;
        start = rows.end;
        if let Some(adapter) = run.adapter {
            adapter.add(projection, input, rows, output, scratch);
        }
    }
}

impl Adapter {
    pub(crate) fn new(layout: Arc<AdapterLayout>, strength: Strength, values: Vec<f32>) -> Self {
        let packed = vec![PackedProjection::default(); layout.projections().len()];
        let mut adapter = Self { layout, strength, values, packed };
        adapter.pack();
        adapter
    }

    /// A fresh one that is to be trained, or why not: the options, or the memory that the model, of `need`, leaves.
    pub(crate) fn begin(config: &ModelConfig, options: &LoraOptions, need: MemoryNeed) -> Result<Self, EngineError> {
        options.check(config.num_hidden_layers)?;
        let numbers = options.layout(config).length;
        need.with_adapter(config, numbers).check_training()?;
        Ok(Self::initial(config, options))
    }

    /// A fresh one. Each `A` is uniform within `1 / √inputs` of 0, which is He's bound at a negative slope of √5, as PEFT
    /// begins; each `B` is 0.
    pub(crate) fn initial(config: &ModelConfig, options: &LoraOptions) -> Self {
        let layout = options.layout(config);
        let mut generator = ChaCha8Rng::seed_from_u64(options.seed);
        let mut values = vec![0.0; layout.length];
        for adapted in layout.projections().iter().flatten() {
            let bound = 1.0 / (adapted.inputs as f64).sqrt();
            values[adapted.a.clone()].fill_with(|| (bound * (2.0 * uniform(&mut generator) - 1.0)) as f32);
        }
        let strength = Strength { alpha: options.alpha, scaling: options.scaling };
        Self::new(Arc::new(layout), strength, values)
    }

    /// What its products are multiplied with.
    pub(crate) fn scale(&self) -> f32 {
        self.strength.scaling.factor(self.strength.alpha, self.layout.rank) as f32
    }

    /// Brings the packed copy up to date with `values`.
    pub(crate) fn pack(&mut self) {
        let Self { layout, values, packed, .. } = self;
        for (packed, adapted) in packed.iter_mut().zip(layout.projections()) {
            let Some(adapted) = adapted else { continue };
            packed.a.pack_transposed(&values[adapted.a.clone()], adapted.inputs, adapted.width(layout.rank));
            packed.b.resize_with(adapted.modules.len(), PackedMatrix::default);
            for (packed, module) in packed.b.iter_mut().zip(&adapted.modules) {
                packed.pack_transposed(&values[module.b.clone()], layout.rank, module.columns.len());
            }
        }
    }

    /// Adds `scale · B (A x)` to these rows of a product.
    fn add(
        &self,
        projection: Projection,
        input: &[f32],
        rows: Range<usize>,
        output: &mut [f32],
        scratch: &mut AdapterScratch,
    ) {
        let Some(adapted) = self.layout.projection(projection) else { return };
        let packed = &self.packed[self.layout.index(projection)];
        let input = &input[rows.start * adapted.inputs..rows.end * adapted.inputs];
        let output = &mut output[rows.start * adapted.outputs..rows.end * adapted.outputs];
        let rank = self.layout.rank;
        let AdapterScratch { reduced, reduced_part, columns, .. } = scratch;
        self.reduce(packed, adapted, input, rows.len(), reduced);
        for (index, (module, b)) in adapted.modules.iter().zip(&packed.b).enumerate() {
            let own = index * rank..(index + 1) * rank;
            let reduced = copied_columns(reduced, adapted.width(rank), &own, reduced_part);
            if module.columns.len() == adapted.outputs {
                multiply_add(reduced, rows.len(), b, output);
            } else {
                copy_columns(output, adapted.outputs, &module.columns, columns);
                multiply_add(reduced, rows.len(), b, columns);
                put_columns(columns, adapted.outputs, &module.columns, output);
            }
        }
    }

    /// `scale · A x` of all modules, a row for each row.
    fn reduce(
        &self,
        packed: &PackedProjection,
        adapted: &AdaptedProjection,
        input: &[f32],
        rows: usize,
        reduced: &mut Vec<f32>,
    ) {
        reduced.resize(rows * adapted.width(self.layout.rank), 0.0);
        multiply(input, rows, &packed.a, reduced);
        scale(reduced, self.scale());
    }

    /// The backward pass of [`adapt`], where all rows go through this adapter: adds to the input's gradient, and to
    /// `gradient`, which is laid out like the adapter.
    pub(crate) fn backward(
        &self,
        projection: Projection,
        input: &[f32],
        output_gradient: &[f32],
        input_gradient: &mut [f32],
        gradient: &mut [f32],
        scratch: &mut AdapterScratch,
    ) {
        let Some(adapted) = self.layout.projection(projection) else { return };
        let packed = &self.packed[self.layout.index(projection)];
        let (rank, width, rows) = (self.layout.rank, adapted.width(self.layout.rank), input.len() / adapted.inputs);
        let AdapterScratch { reduced, reduced_gradient, reduced_part, part_gradient, columns, matrix } = scratch;
        self.reduce(packed, adapted, input, rows, reduced);
        reduced_gradient.resize(rows * width, 0.0);
        part_gradient.resize(rows * rank, 0.0);
        for (index, module) in adapted.modules.iter().enumerate() {
            let own = index * rank..(index + 1) * rank;
            let reduced = copied_columns(reduced, width, &own, reduced_part);
            let output_gradient = copied_columns(output_gradient, adapted.outputs, &module.columns, columns);
            matrix.pack(reduced, rows, rank);
            transposed_multiply_add(output_gradient, module.columns.len(), matrix, &mut gradient[module.b.clone()]);
            matrix.pack(&self.values[module.b.clone()], module.columns.len(), rank);
            multiply(output_gradient, rows, matrix, part_gradient);
            put_columns(part_gradient, width, &own, reduced_gradient);
        }
        scale(reduced_gradient, self.scale());
        matrix.pack(input, rows, adapted.inputs);
        transposed_multiply_add(reduced_gradient, width, matrix, &mut gradient[adapted.a.clone()]);
        matrix.pack(&self.values[adapted.a.clone()], width, adapted.inputs);
        multiply_add(reduced_gradient, rows, matrix, input_gradient);
    }
}

impl AdaptedProjection {
    /// Numbers that a row is reduced to.
    fn width(&self, rank: usize) -> usize {
        self.modules.len() * rank
    }
}

/// From 0 up to 1.
fn uniform(generator: &mut ChaCha8Rng) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    (generator.next_u64() >> 11) as f64 * UNIT
}

fn scale(values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|value| *value *= factor);
}

/// The columns of a matrix with rows of `width`, as a matrix of their own: itself where they are all of it.
fn copied_columns<'a>(matrix: &'a [f32], width: usize, columns: &Range<usize>, copy: &'a mut Vec<f32>) -> &'a [f32] {
    if columns.len() == width {
        return matrix;
    }
    copy_columns(matrix, width, columns, copy);
    copy
}

fn copy_columns(matrix: &[f32], width: usize, columns: &Range<usize>, copy: &mut Vec<f32>) {
    copy.clear();
    for row in matrix.chunks_exact(width) {
        copy.extend_from_slice(&row[columns.clone()]);
    }
}

fn put_columns(copy: &[f32], width: usize, columns: &Range<usize>, matrix: &mut [f32]) {
    for (row, own) in matrix.chunks_exact_mut(width).zip(copy.chunks_exact(columns.len())) {
        row[columns.clone()].copy_from_slice(own);
    }
}
