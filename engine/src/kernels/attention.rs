use std::ops::Range;

use super::{LANES, dot, exp, fold, vectorised};

/// Positions of a block of keys.
pub(crate) const BLOCK: usize = LANES;

/// How many heads attention has, and how wide they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) query_heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) head: usize,
}

impl AttentionShape {
    /// Numbers in one block of keys.
    pub(crate) fn key_block(&self) -> usize {
        self.key_heads * self.head * BLOCK
    }

    /// Blocks that `positions` positions take.
    pub(crate) fn blocks(&self, positions: usize) -> usize {
        positions.div_ceil(BLOCK)
    }

    /// Query heads that share one key head.
    fn group(&self) -> usize {
        self.query_heads / self.key_heads
    }
}

/// Writes one position's keys (`[key_heads, head]`) into blocks of `[key_heads, head, BLOCK]`, where a score is
/// computed for a whole block of positions at once.
pub(crate) fn store_keys(shape: AttentionShape, row: &[f32], position: usize, blocks: &mut [f32]) {
    let block = &mut blocks[position / BLOCK * shape.key_block()..][..shape.key_block()];
    for (index, &key) in row.iter().enumerate() {
        block[index * BLOCK + position % BLOCK] = key;
    }
}

/// Numbers of a sequence's positions, [`BLOCK`] positions in a block, wherever each block lies.
pub(crate) trait Blocks {
    /// The numbers of one block. Positions that are not there yet may be missing at its end.
    fn block(&self, index: usize) -> &[f32];
}

/// Blocks one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined<'a> {
    pub(crate) numbers: &'a [f32],
    /// Numbers in a block.
    pub(crate) size: usize,
}

impl Blocks for Joined<'_> {
    #[inline(always)]
    fn block(&self, index: usize) -> &[f32] {
        let start = index * self.size;
        &self.numbers[start..self.numbers.len().min(start + self.size)]
    }
}

/// One position's attention over the `length` positions up to and including itself: softmax of scaled scores, then
/// the mean of the values under it.
///
/// Keys are laid out as by [`store_keys`], values as rows that are `stride` numbers apart; `scores` is scratch.
#[allow(clippy::too_many_arguments)] // the cache's two halves differ in layout
pub(crate) fn attend(
    shape: AttentionShape,
    query: &[f32],
    keys: &impl Blocks,
    values: &impl Blocks,
    stride: usize,
    length: usize,
    scores: &mut Vec<f32>,
    attended: &mut [f32],
) {
    scores.resize(shape.blocks(length) * BLOCK, 0.0);
    vectorised(
        #[inline(always)]
        || {
            for head in 0..shape.query_heads {
                let place = head * shape.head..(head + 1) * shape.head;
                let key_head = head / shape.group();
                softmax_of_scores(shape, &query[place.clone()], key_head, keys, length, scores);
                weighted_sum(scores, values, key_head * shape.head, stride, length, &mut attended[place]);
            }
        },
    );
}

/// What the backward pass of one sequence's attention reads. Rows are those of the sequence alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionForward<'a> {
    /// `[length, query_heads + key_heads, head]`: queries and keys as they met.
    pub(crate) rotated: &'a [f32],
    /// The keys in blocks.
    pub(crate) keys: &'a [f32],
    /// The values in blocks of the same form.
    pub(crate) values: &'a [f32],
    /// `[length, query_heads, head]`: gradient of what [`attend`] gave.
    pub(crate) attended_gradient: &'a [f32],
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
    for first in (0..positions).step_by(QUERIES) {
        let queries = first..positions.min(first + QUERIES);
        let scores = queries.len() * shape.group() * shape.blocks(queries.end) * BLOCK;
        scratch.probabilities.resize(scores, 0.0);
        scratch.gradients.resize(scores, 0.0);
        vectorised(
            #[inline(always)]
            || {
                for key_head in 0..shape.key_heads {
                    let part = BackwardPart { shape, forward, queries: queries.clone(), key_head };
                    part.scores_and_query_gradients(scratch, rotated_gradient);
                    part.add_key_and_value_gradients(scratch, rotated_gradient, value_gradient, stride);
                }
            },
        );
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

    /// Probabilities and their scores' gradients, query by query, 0 for positions that the query does not see.
    #[inline(always)]
    fn scores_and_query_gradients(&self, scratch: &mut AttentionScratch, rotated_gradient: &mut [f32]) {
        let (shape, forward, key_head) = (self.shape, self.forward, self.key_head);
        let joined = |numbers| Joined { numbers, size: shape.key_block() };
        let rotated = Joined { numbers: forward.rotated, size: BLOCK * self.width() };
        let scale = 1.0 / (shape.head as f32).sqrt();
        let mut start = 0;
        for position in self.queries.clone() {
            let seen = shape.blocks(position + 1) * BLOCK;
            for member in 0..shape.group() {
                let in_row = self.queries_at() + member * shape.head;
                let at = position * self.width() + in_row;
                let query = &forward.rotated[at..at + shape.head];
                let output_gradient =
                    &forward.attended_gradient[position * shape.query_heads * shape.head + in_row..][..shape.head];
                let scores = start..start + self.score_stride();
                start = scores.end;
                let (probabilities, unseen) = scratch.probabilities[scores.clone()].split_at_mut(seen);
                unseen.fill(0.0);
                let (gradients, unseen) = scratch.gradients[scores].split_at_mut(seen);
                unseen.fill(0.0);
                softmax_of_scores(shape, query, key_head, &joined(forward.keys), position + 1, probabilities);
                block_products(shape, output_gradient, key_head, &joined(forward.values), gradients);
                for unseen in position + 1..gradients.len() {
                    gradients[unseen] = 0.0;
                }
                let along = dot(probabilities, gradients);
                let probabilities = &probabilities[..gradients.len()];
                for other in 0..gradients.len() {
                    gradients[other] = probabilities[other] * (gradients[other] - along) * scale;
                }
                let query_gradient = &mut rotated_gradient[at..at + shape.head];
                weighted_sum(gradients, &rotated, self.key_at(), self.width(), position + 1, query_gradient);
            }
        }
    }

    #[inline(always)]
    fn add_key_and_value_gradients(
        &self,
        scratch: &AttentionScratch,
        rotated_gradient: &mut [f32],
        value_gradient: &mut [f32],
        stride: usize,
    ) {
        const TILE: usize = 4;
        let (shape, forward, width) = (self.shape, self.forward, self.width());
        let queries = Vectors {
            numbers: &forward.rotated[self.queries.start * width + self.queries_at()..],
            stride: width,
            part: self,
        };
        let query_width = shape.query_heads * shape.head;
        let output_gradients = Vectors {
            numbers: &forward.attended_gradient[self.queries.start * query_width + self.queries_at()..],
            stride: query_width,
            part: self,
        };
        let tiled = self.queries.end - self.queries.end % TILE;
        let value_at = self.key_head * shape.head;
        for other in (0..tiled).step_by(TILE) {
            let keys = &mut rotated_gradient[other * width + self.key_at()..];
            queries.add_weighted::<TILE>(&scratch.gradients[other..], keys, width);
            let values = &mut value_gradient[other * stride + value_at..];
            output_gradients.add_weighted::<TILE>(&scratch.probabilities[other..], values, stride);
        }
        for other in tiled..self.queries.end {
            let keys = &mut rotated_gradient[other * width + self.key_at()..];
            queries.add_weighted::<1>(&scratch.gradients[other..], keys, width);
            let values = &mut value_gradient[other * stride + value_at..];
            output_gradients.add_weighted::<1>(&scratch.probabilities[other..], values, stride);
        }
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
    /// Adds all vectors to each of `TILE` sums, each times its weight for that sum. `weights` begins with the first query's
    /// for the first sum, `sums` with the first sum.
    #[inline(always)]
    fn add_weighted<const TILE: usize>(&self, weights: &[f32], sums: &mut [f32], sum_stride: usize) {
        let shape = self.part.shape;
        let (positions, group, weight_stride) = (self.part.queries.len(), shape.group(), self.part.score_stride());
        let blocks = shape.head / LANES;
        for block in 0..blocks {
            let mut tile = [[0.0; LANES]; TILE];
            for index in 0..TILE {
                tile[index].copy_from_slice(&sums[index * sum_stride + block * LANES..][..LANES]);
            }
            for position in 0..positions {
                for member in 0..group {
                    let at = position * self.stride + member * shape.head + block * LANES;
                    let (vector, _) = self.numbers[at..][..LANES].as_chunks::<LANES>();
                    let weights = &weights[(position * group + member) * weight_stride..][..TILE];
                    for index in 0..TILE {
                        for lane in 0..LANES {
                            tile[index][lane] += weights[index] * vector[0][lane];
                        }
                    }
                }
            }
            for index in 0..TILE {
                sums[index * sum_stride + block * LANES..][..LANES].copy_from_slice(&tile[index]);
            }
        }
        for rest in blocks * LANES..shape.head {
            for index in 0..TILE {
                for query in 0..positions * group {
                    let vector = query / group * self.stride + query % group * shape.head;
                    sums[index * sum_stride + rest] +=
                        weights[query * weight_stride + index] * self.numbers[vector + rest];
                }
            }
        }
    }
}

/// Probabilities of the first `length` positions; 0 for the rest of the last block.
#[inline(always)]
fn softmax_of_scores(
    shape: AttentionShape,
    query: &[f32],
    key_head: usize,
    keys: &impl Blocks,
    length: usize,
    scores: &mut [f32],
) {
    block_products(shape, query, key_head, keys, scores);
    let scale = 1.0 / (shape.head as f32).sqrt();
    for unseen in length..scores.len() {
        scores[unseen] = f32::NEG_INFINITY;
    }
    let (blocks, _) = scores.as_chunks_mut::<BLOCK>();
    let mut highest = [f32::NEG_INFINITY; BLOCK];
    for block in 0..blocks.len() {
        for lane in 0..BLOCK {
            let score = blocks[block][lane];
            highest[lane] = if score > highest[lane] { score } else { highest[lane] };
        }
    }
    let mut top = f32::NEG_INFINITY;
    for lane in 0..BLOCK {
        top = if highest[lane] > top { highest[lane] } else { top };
    }
    let mut sums = [0.0; BLOCK];
    for block in 0..blocks.len() {
        for lane in 0..BLOCK {
            let weight = exp((blocks[block][lane] - top) * scale);
            blocks[block][lane] = weight;
            sums[lane] += weight;
        }
    }
    let factor = 1.0 / fold(sums);
    for block in 0..blocks.len() {
        for lane in 0..BLOCK {
            blocks[block][lane] *= factor;
        }
    }
}

/// The product of `vector` with every position's vector of one key head, for as many blocks as `products` has.
#[inline(always)]
fn block_products(shape: AttentionShape, vector: &[f32], key_head: usize, blocks: &impl Blocks, products: &mut [f32]) {
    const TILE: usize = 4;
    let (products, _) = products.as_chunks_mut::<BLOCK>();
    let place = key_head * shape.head * BLOCK..(key_head + 1) * shape.head * BLOCK;
    let (tiles, single) = products.as_chunks_mut::<TILE>();
    for tile in 0..tiles.len() {
        tiles[tile] = products_of_blocks(vector, blocks, tile * TILE, place.clone());
    }
    for block in 0..single.len() {
        [single[block]] = products_of_blocks(vector, blocks, tiles.len() * TILE + block, place.clone());
    }
}

/// The products with the positions of `TILE` blocks, whose sums do not wait for each other.
#[inline(always)]
fn products_of_blocks<const TILE: usize>(
    vector: &[f32],
    blocks: &impl Blocks,
    first: usize,
    place: Range<usize>,
) -> [[f32; BLOCK]; TILE] {
    let mut dimensions: [&[[f32; BLOCK]]; TILE] = [&[]; TILE];
    for tile in 0..TILE {
        let (block, _) = blocks.block(first + tile)[place.clone()].as_chunks::<BLOCK>();
        dimensions[tile] = &block[..vector.len()];
    }
    let mut products = [[0.0; BLOCK]; TILE];
    for dimension in 0..vector.len() {
        for tile in 0..TILE {
            for lane in 0..BLOCK {
                products[tile][lane] += vector[dimension] * dimensions[tile][dimension][lane];
            }
        }
    }
    products
}

/// The sum of the first `length` positions' numbers from `start` on, each position's times its weight.
#[inline(always)]
fn weighted_sum(weights: &[f32], rows: &impl Blocks, start: usize, stride: usize, length: usize, sum: &mut [f32]) {
    let (blocks, rest) = sum.as_chunks_mut::<LANES>();
    let (fours, blocks) = blocks.as_chunks_mut::<4>();
    let (twos, ones) = blocks.as_chunks_mut::<2>();
    let mut start = start;
    for tile in 0..fours.len() {
        fours[tile] = weighted_blocks(weights, rows, start, stride, length);
        start += 4 * LANES;
    }
    for tile in 0..twos.len() {
        twos[tile] = weighted_blocks(weights, rows, start, stride, length);
        start += 2 * LANES;
    }
    for block in 0..ones.len() {
        [ones[block]] = weighted_blocks(weights, rows, start, stride, length);
        start += LANES;
    }
    for index in 0..rest.len() {
        let mut sum = 0.0;
        for at in 0..length.div_ceil(BLOCK) {
            let rows = &rows.block(at)[start + index..];
            for position in 0..BLOCK.min(length - at * BLOCK) {
                sum += weights[at * BLOCK + position] * rows[position * stride];
            }
        }
        rest[index] = sum;
    }
}

/// `TILE` blocks of [`weighted_sum`], which do not wait for each other.
#[inline(always)]
fn weighted_blocks<const TILE: usize>(
    weights: &[f32],
    rows: &impl Blocks,
    start: usize,
    stride: usize,
    length: usize,
) -> [[f32; LANES]; TILE] {
    let mut sums = [[0.0; LANES]; TILE];
    for at in 0..length.div_ceil(BLOCK) {
        let rows = &rows.block(at)[start..];
        for position in 0..BLOCK.min(length - at * BLOCK) {
            let (row, _) = rows[position * stride..][..TILE * LANES].as_chunks::<LANES>();
            let weight = weights[at * BLOCK + position];
            for tile in 0..TILE {
                for lane in 0..LANES {
                    sums[tile][lane] += weight * row[tile][lane];
                }
            }
        }
    }
    sums
}
