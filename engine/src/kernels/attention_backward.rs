use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::attention::{
    AttentionShape, BLOCK, Joined, TILE, ValueRows, block_products, softmax_of_scores, weighted_sums,
};
use super::{LANES, dot};

/// What the backward pass of one sequence's attention reads. Rows are those of the sequence alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionForward<'a> {
    /// `[length, query_heads + key_heads, head]`: queries and keys as they met.
    pub(crate) rotated: &'a [f32],
    /// The keys in blocks.
    pub(crate) keys: &'a [f32],
    /// The values in blocks of the same form.
    pub(crate) values: &'a [f32],
    /// `[length, query_heads, head]`: gradient of what [`attend`](super::attend) gave.
    pub(crate) attended_gradient: &'a [f32],
    /// The first position whose query counts: what those before it attend to is another's part.
    pub(crate) first: usize,
}

/// Positions whose queries are taken together, so that what all of them add to a key's and a value's gradient is added
/// while that stands in registers.
const QUERIES: usize = 16;

/// Scores of some positions' queries, those of one key head.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttentionScratch {
    probabilities: Vec<f32>,
    gradients: Vec<f32>,
}

/// Writes to `rotated_gradient` (laid out like `rotated`) the queries' gradients of one sequence's attention, and adds to it
/// the keys', and to `value_gradient` (rows `stride` numbers apart) the values'. Probabilities are computed again: saving
/// them would take the square of the length.
pub(crate) fn attend_backward(
    shape: AttentionShape,
    forward: AttentionForward<'_>,
    scratch: &mut AttentionScratch,
    rotated_gradient: &mut [f32],
    value_gradient: &mut [f32],
    stride: usize,
) {
    let width = (shape.query_heads + shape.key_heads) * shape.head;
    let positions = forward.rotated.len() / width;
    for first in (forward.first..positions).step_by(QUERIES) {
        let queries = first..positions.min(first + QUERIES);
        let scores = queries.len() * shape.group() * shape.blocks(queries.end) * BLOCK;
        scratch.probabilities.resize(scores, 0.0);
        scratch.gradients.resize(scores, 0.0);
        for key_head in 0..shape.key_heads {
            let part = BackwardPart { shape, forward, queries: queries.clone(), key_head };
            Arch::new().dispatch(AttendBackward { part, scratch, rotated_gradient, value_gradient, stride });
        }
    }
}

struct AttendBackward<'a> {
    part: BackwardPart<'a>,
    scratch: &'a mut AttentionScratch,
    rotated_gradient: &'a mut [f32],
    value_gradient: &'a mut [f32],
    stride: usize,
}

impl WithSimd for AttendBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { part, scratch, rotated_gradient, value_gradient, stride } = self;
        let vectors = part.queries.len() * part.shape.group();
        let mut vector = 0;
        // Processors with short vectors have half the registers.
        while S::F32_LANES >= LANES && vector + TILE <= vectors {
            part.scores_and_query_gradients::<S, TILE>(simd, vector, scratch, rotated_gradient);
            vector += TILE;
        }
        while vector + 2 <= vectors {
            part.scores_and_query_gradients::<S, 2>(simd, vector, scratch, rotated_gradient);
            vector += 2;
        }
        if vector < vectors {
            part.scores_and_query_gradients::<S, 1>(simd, vector, scratch, rotated_gradient);
        }
        part.add_key_and_value_gradients(simd, scratch, rotated_gradient, value_gradient, stride);
    }
}

/// The queries of some positions that meet one key head.
struct BackwardPart<'a> {
    shape: AttentionShape,
    forward: AttentionForward<'a>,
    queries: Range<usize>,
    key_head: usize,
}

impl BackwardPart<'_> {
    /// Of a row of `rotated`.
    #[inline(always)]
    fn width(&self) -> usize {
        (self.shape.query_heads + self.shape.key_heads) * self.shape.head
    }

    /// Where a row of `rotated` has the key.
    #[inline(always)]
    fn key_at(&self) -> usize {
        (self.shape.query_heads + self.key_head) * self.shape.head
    }

    /// Where a row of queries has the first that meets the key.
    #[inline(always)]
    fn queries_at(&self) -> usize {
        self.key_head * self.shape.group() * self.shape.head
    }

    /// Numbers from one query's scores to the next's.
    #[inline(always)]
    fn score_stride(&self) -> usize {
        self.shape.blocks(self.queries.end) * BLOCK
    }

    /// Of so many query vectors, position after position, the probabilities and their scores' gradients, 0 for positions
    /// that the query does not see, and the queries' gradients.
    #[inline(always)]
    fn scores_and_query_gradients<S: Simd, const ROWS: usize>(
        &self,
        simd: S,
        first: usize,
        scratch: &mut AttentionScratch,
        rotated_gradient: &mut [f32],
    ) {
        let (shape, forward, stride) = (self.shape, self.forward, self.score_stride());
        let mut lengths = [0; ROWS];
        let mut places = [0; ROWS];
        let mut queries: [&[f32]; ROWS] = [&[]; ROWS];
        let mut output_gradients: [&[f32]; ROWS] = [&[]; ROWS];
        for row in 0..ROWS {
            let position = self.queries.start + (first + row) / shape.group();
            let in_row = self.queries_at() + (first + row) % shape.group() * shape.head;
            lengths[row] = position + 1;
            places[row] = position * self.width() + in_row;
            queries[row] = &forward.rotated[places[row]..][..shape.head];
            let output = position * shape.query_heads * shape.head + in_row;
            output_gradients[row] = &forward.attended_gradient[output..][..shape.head];
        }
        let blocks = shape.blocks(lengths[ROWS - 1]);
        let in_block = shape.in_key_block(self.key_head);
        let joined = |numbers| Joined { numbers, size: shape.key_block() };
        let probabilities = &mut scratch.probabilities[first * stride..][..ROWS * stride];
        block_products(simd, queries, &joined(forward.keys), in_block.clone(), blocks, probabilities, stride);
        let gradients = &mut scratch.gradients[first * stride..][..ROWS * stride];
        block_products(simd, output_gradients, &joined(forward.values), in_block, blocks, gradients, stride);
        for row in 0..ROWS {
            let probabilities = &mut probabilities[row * stride..][..stride];
            softmax_of_scores(shape, lengths[row], probabilities);
            score_gradients(shape, lengths[row], probabilities, &mut gradients[row * stride..][..stride]);
        }
        let rotated = Joined { numbers: forward.rotated, size: BLOCK * self.width() };
        let keys = ValueRows { rows: &rotated, start: self.key_at(), stride: self.width(), width: shape.head };
        weighted_sums(simd, gradients, stride, lengths, &keys, rotated_gradient, places);
    }

    #[inline(always)]
    fn add_key_and_value_gradients<S: Simd>(
        &self,
        simd: S,
        scratch: &AttentionScratch,
        rotated_gradient: &mut [f32],
        value_gradient: &mut [f32],
        stride: usize,
    ) {
        let (shape, forward, width) = (self.shape, self.forward, self.width());
        let query_width = shape.query_heads * shape.head;
        let queries = Vectors {
            numbers: &forward.rotated[self.queries.start * width + self.queries_at()..],
            stride: width,
            part: self,
        };
        let output_gradients = Vectors {
            numbers: &forward.attended_gradient[self.queries.start * query_width + self.queries_at()..],
            stride: query_width,
            part: self,
        };
        queries.add_to_positions(simd, &scratch.gradients, rotated_gradient, self.key_at(), width);
        let value_at = self.key_head * shape.head;
        output_gradients.add_to_positions(simd, &scratch.probabilities, value_gradient, value_at, stride);
    }
}

/// Turns the gradients of one query's probabilities into those of its scores.
#[inline(always)]
fn score_gradients(shape: AttentionShape, length: usize, probabilities: &[f32], gradients: &mut [f32]) {
    let scale = 1.0 / (shape.head as f32).sqrt();
    let probabilities = &probabilities[..gradients.len()];
    for unseen in length..gradients.len() {
        gradients[unseen] = 0.0;
    }
    let along = dot(probabilities, gradients);
    for other in 0..gradients.len() {
        gradients[other] = probabilities[other] * (gradients[other] - along) * scale;
    }
}

/// One vector for each query of a part.
struct Vectors<'a> {
    /// From the first of them on.
    numbers: &'a [f32],
    /// From one position's to the next's.
    stride: usize,
    part: &'a BackwardPart<'a>,
}

impl Vectors<'_> {
    /// Adds all vectors to each position's sum, each times its weight for that position. Sums stand at `start` in rows that are
    /// `stride` apart.
    #[inline(always)]
    fn add_to_positions<S: Simd>(&self, simd: S, weights: &[f32], sums: &mut [f32], start: usize, stride: usize) {
        let positions = self.part.queries.end;
        let mut position = 0;
        while position + 4 <= positions {
            let sums = &mut sums[position * stride + start..];
            self.add_weighted::<S, 4>(simd, &weights[position..], sums, stride);
            position += 4;
        }
        while position < positions {
            let sums = &mut sums[position * stride + start..];
            self.add_weighted::<S, 1>(simd, &weights[position..], sums, stride);
            position += 1;
        }
    }

    /// The same for `ROWS` positions, with which `weights` and `sums` begin.
    #[inline(always)]
    fn add_weighted<S: Simd, const ROWS: usize>(&self, simd: S, weights: &[f32], sums: &mut [f32], stride: usize) {
        let head = self.part.shape.head;
        let mut column = 0;
        while S::F32_LANES >= LANES && column + 4 * S::F32_LANES <= head {
            self.add_columns::<S, ROWS, 4>(simd, weights, &mut sums[column..], stride, column);
            column += 4 * S::F32_LANES;
        }
        while column + 2 * S::F32_LANES <= head {
            self.add_columns::<S, ROWS, 2>(simd, weights, &mut sums[column..], stride, column);
            column += 2 * S::F32_LANES;
        }
        while column + S::F32_LANES <= head {
            self.add_columns::<S, ROWS, 1>(simd, weights, &mut sums[column..], stride, column);
            column += S::F32_LANES;
        }
        if column < head {
            let (group, weight_stride) = (self.part.shape.group(), self.part.score_stride());
            for row in 0..ROWS {
                let sums = &mut sums[row * stride + column..row * stride + head];
                let mut sum = simd.partial_load_f32s(sums);
                for query in 0..self.part.queries.len() * group {
                    let vector = query / group * self.stride + query % group * head;
                    let vector = simd.partial_load_f32s(&self.numbers[vector + column..vector + head]);
                    sum = simd.mul_add_e_f32s(simd.splat_f32s(weights[query * weight_stride + row]), vector, sum);
                }
                simd.partial_store_f32s(sums, sum);
            }
        }
    }

    /// The same for `COUNT` vectors of columns, with which `sums` begins.
    #[inline(always)]
    fn add_columns<S: Simd, const ROWS: usize, const COUNT: usize>(
        &self,
        simd: S,
        weights: &[f32],
        sums: &mut [f32],
        stride: usize,
        column: usize,
    ) {
        let shape = self.part.shape;
        let (positions, group, weight_stride) = (self.part.queries.len(), shape.group(), self.part.score_stride());
        let mut tile = [[simd.splat_f32s(0.0); COUNT]; ROWS];
        for row in 0..ROWS {
            let (sums, _) = S::as_simd_f32s(&sums[row * stride..][..COUNT * S::F32_LANES]);
            tile[row].copy_from_slice(sums);
        }
        for position in 0..positions {
            for member in 0..group {
                let vector = &self.numbers[position * self.stride + member * shape.head + column..];
                let (vector, _) = S::as_simd_f32s(&vector[..COUNT * S::F32_LANES]);
                let weights = &weights[(position * group + member) * weight_stride..][..ROWS];
                for row in 0..ROWS {
                    let weight = simd.splat_f32s(weights[row]);
                    for index in 0..COUNT {
                        tile[row][index] = simd.mul_add_e_f32s(weight, vector[index], tile[row][index]);
                    }
                }
            }
        }
        for row in 0..ROWS {
            let (sums, _) = S::as_mut_simd_f32s(&mut sums[row * stride..][..COUNT * S::F32_LANES]);
            sums.copy_from_slice(&tile[row]);
        }
    }
}
