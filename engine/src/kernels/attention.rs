use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{LANES, exp, fold};

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
    pub(super) fn group(&self) -> usize {
        self.query_heads / self.key_heads
    }

    /// Where a block of keys has those of one head.
    #[inline(always)]
    pub(super) fn in_key_block(&self, key_head: usize) -> Range<usize> {
        key_head * self.head * BLOCK..(key_head + 1) * self.head * BLOCK
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

/// The queries of positions that follow one another in a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Queries<'a> {
    /// Rows that begin with a position's queries, `[query_heads, head]`.
    pub(crate) rows: &'a [f32],
    /// From one row to the next.
    pub(crate) stride: usize,
    /// The positions.
    pub(crate) positions: Range<usize>,
}

/// Query vectors that meet the keys together: with as many blocks of keys, their sums fill the registers.
pub(super) const TILE: usize = 4;

/// Attention of each position over those up to and including itself: softmax of scaled scores, then the mean of the
/// values under it, a row of `attended` for each position. What a position gets does not depend on which positions are
/// requested with it.
///
/// Keys are laid out as by [`store_keys`], values as rows that are `stride` numbers apart; `scores` is scratch.
pub(crate) fn attend(
    shape: AttentionShape,
    queries: Queries<'_>,
    keys: &impl Blocks,
    values: &impl Blocks,
    stride: usize,
    scores: &mut Vec<f32>,
    attended: &mut [f32],
) {
    scores.resize(TILE * shape.blocks(queries.positions.end) * BLOCK, 0.0);
    Arch::new().dispatch(Attend { shape, queries, keys, values, stride, scores, attended });
}

struct Attend<'a, K, V> {
    shape: AttentionShape,
    queries: Queries<'a>,
    keys: &'a K,
    values: &'a V,
    stride: usize,
    scores: &'a mut [f32],
    attended: &'a mut [f32],
}

impl<K: Blocks, V: Blocks> WithSimd for Attend<'_, K, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let vectors = self.queries.positions.len() * self.shape.group();
        for key_head in 0..self.shape.key_heads {
            let mut vector = 0;
            // Processors with short vectors have half the registers.
            while S::F32_LANES >= LANES && vector + TILE <= vectors {
                self.tile::<S, TILE>(simd, key_head, vector);
                vector += TILE;
            }
            while vector + 2 <= vectors {
                self.tile::<S, 2>(simd, key_head, vector);
                vector += 2;
            }
            if vector < vectors {
                self.tile::<S, 1>(simd, key_head, vector);
            }
        }
    }
}

impl<K: Blocks, V: Blocks> Attend<'_, K, V> {
    /// So many of the query vectors that meet one key head, position after position.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize>(&mut self, simd: S, key_head: usize, first: usize) {
        let Self { shape, queries, keys, values, stride, scores, attended } = self;
        let (shape, group) = (*shape, shape.group());
        let mut lengths = [0; ROWS];
        let mut vectors: [&[f32]; ROWS] = [&[]; ROWS];
        let mut places = [0; ROWS];
        for row in 0..ROWS {
            let index = (first + row) / group;
            let in_row = (key_head * group + (first + row) % group) * shape.head;
            lengths[row] = queries.positions.start + index + 1;
            vectors[row] = &queries.rows[index * queries.stride + in_row..][..shape.head];
            places[row] = index * shape.query_heads * shape.head + in_row;
        }
        let blocks = shape.blocks(lengths[ROWS - 1]);
        let scores = &mut scores[..ROWS * blocks * BLOCK];
        block_products(simd, vectors, *keys, shape.in_key_block(key_head), blocks, scores, blocks * BLOCK);
        for row in 0..ROWS {
            softmax_of_scores(shape, lengths[row], &mut scores[row * blocks * BLOCK..][..blocks * BLOCK]);
        }
        let rows = ValueRows { rows: *values, start: key_head * shape.head, stride: *stride, width: shape.head };
        weighted_sums(simd, scores, blocks * BLOCK, lengths, &rows, attended, places);
    }
}

/// Turns the products of a query with its keys into probabilities of the first `length` positions; the rest become 0.
#[inline(always)]
pub(super) fn softmax_of_scores(shape: AttentionShape, length: usize, scores: &mut [f32]) {
    let scale = 1.0 / (shape.head as f32).sqrt();
    let (scores, unseen) = scores.split_at_mut(shape.blocks(length) * BLOCK);
    unseen.fill(0.0);
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

/// The products of vectors with every position's vector at one place of its block, for so many blocks: rows of
/// `products`, which are `stride` apart.
#[inline(always)]
pub(super) fn block_products<S: Simd, const ROWS: usize>(
    simd: S,
    vectors: [&[f32]; ROWS],
    blocks: &impl Blocks,
    place: Range<usize>,
    count: usize,
    products: &mut [f32],
    stride: usize,
) {
    let mut block = 0;
    while block + 4 <= count {
        let products = &mut products[block * BLOCK..];
        products_of_blocks::<S, ROWS, 4>(simd, vectors, blocks, block, place.clone(), products, stride);
        block += 4;
    }
    if block + 2 <= count {
        let products = &mut products[block * BLOCK..];
        products_of_blocks::<S, ROWS, 2>(simd, vectors, blocks, block, place.clone(), products, stride);
        block += 2;
    }
    if block < count {
        let products = &mut products[block * BLOCK..];
        products_of_blocks::<S, ROWS, 1>(simd, vectors, blocks, block, place, products, stride);
    }
}

/// The products with the positions of `COUNT` blocks from `first` on.
#[inline(always)]
fn products_of_blocks<S: Simd, const ROWS: usize, const COUNT: usize>(
    simd: S,
    vectors: [&[f32]; ROWS],
    blocks: &impl Blocks,
    first: usize,
    place: Range<usize>,
    products: &mut [f32],
    stride: usize,
) {
    let dimensions = vectors[0].len();
    let per_block = BLOCK / S::F32_LANES;
    let mut numbers: [&[S::f32s]; COUNT] = [&[]; COUNT];
    for index in 0..COUNT {
        let (block, _) = S::as_simd_f32s(&blocks.block(first + index)[place.clone()]);
        numbers[index] = &block[..dimensions * per_block];
    }
    let mut vectors = vectors;
    for row in 0..ROWS {
        vectors[row] = &vectors[row][..dimensions];
    }
    for part in 0..per_block {
        let mut sums = [[simd.splat_f32s(0.0); COUNT]; ROWS];
        for dimension in 0..dimensions {
            for row in 0..ROWS {
                let factor = simd.splat_f32s(vectors[row][dimension]);
                for index in 0..COUNT {
                    let numbers = numbers[index][dimension * per_block + part];
                    sums[row][index] = simd.mul_add_e_f32s(factor, numbers, sums[row][index]);
                }
            }
        }
        for row in 0..ROWS {
            let (products, _) = S::as_mut_simd_f32s(&mut products[row * stride..][..COUNT * BLOCK]);
            for index in 0..COUNT {
                products[index * per_block + part] = sums[row][index];
            }
        }
    }
}

/// A vector of each position, in rows.
pub(super) struct ValueRows<'a, B> {
    pub(super) rows: &'a B,
    /// Where a row has it.
    pub(super) start: usize,
    /// From one row to the next.
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// For each of `ROWS` rows of weights, which are `weight_stride` apart, the sum of as many positions' vectors as it has
/// `lengths`, each times its weight; written to `sums` at its place. Lengths do not fall from row to row.
#[inline(always)]
pub(super) fn weighted_sums<S: Simd, const ROWS: usize>(
    simd: S,
    weights: &[f32],
    weight_stride: usize,
    lengths: [usize; ROWS],
    values: &ValueRows<'_, impl Blocks>,
    sums: &mut [f32],
    places: [usize; ROWS],
) {
    let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
    for row in 0..ROWS {
        rows[row] = &weights[row * weight_stride..][..lengths[row]];
    }
    let mut column = 0;
    while column + 4 * S::F32_LANES <= values.width {
        weighted_columns::<S, ROWS, 4>(simd, rows, values, column, sums, places);
        column += 4 * S::F32_LANES;
    }
    while column + 2 * S::F32_LANES <= values.width {
        weighted_columns::<S, ROWS, 2>(simd, rows, values, column, sums, places);
        column += 2 * S::F32_LANES;
    }
    while column + S::F32_LANES <= values.width {
        weighted_columns::<S, ROWS, 1>(simd, rows, values, column, sums, places);
        column += S::F32_LANES;
    }
    if column < values.width {
        for row in 0..ROWS {
            let mut sum = simd.splat_f32s(0.0);
            for position in 0..lengths[row] {
                let place = position % BLOCK * values.stride + values.start;
                let vector = &values.rows.block(position / BLOCK)[place + column..place + values.width];
                let vector = simd.partial_load_f32s(vector);
                sum = simd.mul_add_e_f32s(simd.splat_f32s(rows[row][position]), vector, sum);
            }
            simd.partial_store_f32s(&mut sums[places[row] + column..places[row] + values.width], sum);
        }
    }
}

/// `COUNT` vectors of columns of [`weighted_sums`].
#[inline(always)]
fn weighted_columns<S: Simd, const ROWS: usize, const COUNT: usize>(
    simd: S,
    weights: [&[f32]; ROWS],
    values: &ValueRows<'_, impl Blocks>,
    column: usize,
    sums: &mut [f32],
    places: [usize; ROWS],
) {
    let common = weights[0].len();
    let mut tile = [[simd.splat_f32s(0.0); COUNT]; ROWS];
    add_positions(simd, weights, 0..common, values, column, &mut tile);
    for row in 0..ROWS {
        let mut own = [tile[row]];
        add_positions(simd, [weights[row]], common..weights[row].len(), values, column, &mut own);
        let (sums, _) = S::as_mut_simd_f32s(&mut sums[places[row] + column..][..COUNT * S::F32_LANES]);
        sums.copy_from_slice(&own[0]);
    }
}

/// Adds some positions' vectors to each row's sums, each times the row's weight.
#[inline(always)]
fn add_positions<S: Simd, const ROWS: usize, const COUNT: usize>(
    simd: S,
    weights: [&[f32]; ROWS],
    positions: Range<usize>,
    values: &ValueRows<'_, impl Blocks>,
    column: usize,
    sums: &mut [[S::f32s; COUNT]; ROWS],
) {
    let mut start = positions.start;
    while start < positions.end {
        let end = positions.end.min((start / BLOCK + 1) * BLOCK);
        let rows = &values.rows.block(start / BLOCK)[values.start + column..];
        let mut own: [&[f32]; ROWS] = [&[]; ROWS];
        for row in 0..ROWS {
            own[row] = &weights[row][start..end];
        }
        for index in 0..end - start {
            let at = (start + index) % BLOCK * values.stride;
            let (vector, _) = S::as_simd_f32s(&rows[at..][..COUNT * S::F32_LANES]);
            for row in 0..ROWS {
                let weight = simd.splat_f32s(own[row][index]);
                for index in 0..COUNT {
                    sums[row][index] = simd.mul_add_e_f32s(weight, vector[index], sums[row][index]);
                }
            }
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::numbers;
    use proptest::prelude::*;

    /// Keys, values and queries of one sequence.
    struct Sequence {
        shape: AttentionShape,
        queries: Vec<f32>,
        keys: Vec<f32>,
        blocks: Vec<f32>,
        values: Vec<f32>,
    }

    impl Sequence {
        fn new(shape: AttentionShape, length: usize) -> Self {
            let (query, key) = (shape.query_heads * shape.head, shape.key_heads * shape.head);
            let keys = numbers(2, length * key);
            let mut blocks = vec![f32::NAN; shape.blocks(length) * shape.key_block()];
            for (position, row) in keys.chunks_exact(key).enumerate() {
                store_keys(shape, row, position, &mut blocks);
            }
            Self { shape, queries: numbers(1, length * query), keys, blocks, values: numbers(3, length * key) }
        }

        fn attend(&self, positions: Range<usize>) -> Vec<f32> {
            let (query, key) = (self.shape.query_heads * self.shape.head, self.shape.key_heads * self.shape.head);
            let mut attended = vec![0.0; positions.len() * query];
            let queries = Queries { rows: &self.queries[positions.start * query..], stride: query, positions };
            let keys = Joined { numbers: &self.blocks, size: self.shape.key_block() };
            let values = Joined { numbers: &self.values, size: key * BLOCK };
            attend(self.shape, queries, &keys, &values, key, &mut Vec::new(), &mut attended);
            attended
        }

        /// One query head's attention at one position, in f64.
        fn exact(&self, position: usize, head: usize) -> Vec<f64> {
            let (shape, width) = (self.shape, self.shape.head);
            let key = |numbers: &[f32], other: usize, index: usize| {
                f64::from(numbers[(other * shape.key_heads + head / shape.group()) * width + index])
            };
            let query = &self.queries[(position * shape.query_heads + head) * width..][..width];
            let score = |other| {
                let along: f64 = (0..width).map(|index| f64::from(query[index]) * key(&self.keys, other, index)).sum();
                (along / (width as f64).sqrt()).exp()
            };
            let weights: Vec<f64> = (0..=position).map(score).collect();
            let mean = |index| -> f64 {
                let sum: f64 = (0..=position).map(|other| weights[other] * key(&self.values, other, index)).sum();
                sum / weights.iter().sum::<f64>()
            };
            (0..width).map(mean).collect()
        }
    }

    proptest! {
        #[test]
        fn a_position_attends_alone_as_it_does_with_others(
            head in 1..70_usize, group in 1..4_usize, length in 1..90_usize, first in 0..90_usize,
        ) {
            let shape = AttentionShape { query_heads: 2 * group, key_heads: 2, head };
            let (sequence, first) = (Sequence::new(shape, length), first % length);
            let together = sequence.attend(first..length);
            let rows = together.chunks_exact(shape.query_heads * head);
            for (position, row) in (first..length).zip(rows) {
                prop_assert_eq!(row, sequence.attend(position..position + 1));
                for (query_head, found) in row.chunks_exact(head).enumerate() {
                    let exact = sequence.exact(position, query_head);
                    prop_assert!(found.iter().zip(exact).all(|(&found, exact)| (f64::from(found) - exact).abs() < 1e-5));
                }
            }
        }
    }
}
