use super::{LANES, add_scaled, dot, exp, fold, vectorised};

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
                mean_of_values(scores, values, key_head * shape.head, stride, length, &mut attended[place]);
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

/// Two rows of scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttentionScratch {
    probabilities: Vec<f32>,
    gradients: Vec<f32>,
}

/// Adds to `rotated_gradient` (laid out like `rotated`) and `value_gradient` (rows `stride` numbers apart) the
/// gradients of one sequence's attention. Probabilities are computed again: saving them would take the square of
/// the length.
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
    for position in 0..positions {
        let padded = shape.blocks(position + 1) * BLOCK;
        scratch.probabilities.resize(padded, 0.0);
        scratch.gradients.resize(padded, 0.0);
        vectorised(
            #[inline(always)]
            || {
                for head in 0..shape.query_heads {
                    backward_row(shape, forward, position, head, scratch, rotated_gradient, value_gradient, stride);
                }
            },
        );
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // the body of one loop
fn backward_row(
    shape: AttentionShape,
    forward: AttentionForward<'_>,
    position: usize,
    head: usize,
    scratch: &mut AttentionScratch,
    rotated_gradient: &mut [f32],
    value_gradient: &mut [f32],
    stride: usize,
) {
    let width = (shape.query_heads + shape.key_heads) * shape.head;
    let key_head = head / shape.group();
    let key_at = (shape.query_heads + key_head) * shape.head;
    let query_row = position * width + head * shape.head..position * width + (head + 1) * shape.head;
    let query = &forward.rotated[query_row.clone()];
    let output_gradient =
        &forward.attended_gradient[(position * shape.query_heads + head) * shape.head..][..shape.head];
    let (probabilities, gradients) = (&mut scratch.probabilities[..], &mut scratch.gradients[..]);

    let joined = |numbers| Joined { numbers, size: shape.key_block() };
    softmax_of_scores(shape, query, key_head, &joined(forward.keys), position + 1, probabilities);
    block_products(shape, output_gradient, key_head, &joined(forward.values), gradients);
    for unseen in position + 1..gradients.len() {
        gradients[unseen] = 0.0;
    }
    let along = dot(probabilities, gradients);
    let scale = 1.0 / (shape.head as f32).sqrt();
    let probabilities = &probabilities[..gradients.len()];
    for other in 0..gradients.len() {
        gradients[other] = probabilities[other] * (gradients[other] - along) * scale;
    }
    for other in 0..=position {
        let key_row = other * width + key_at;
        add_scaled(
            &mut rotated_gradient[query_row.clone()],
            gradients[other],
            &forward.rotated[key_row..][..shape.head],
        );
        add_scaled(&mut rotated_gradient[key_row..][..shape.head], gradients[other], query);
        let value_row = other * stride + key_head * shape.head;
        add_scaled(&mut value_gradient[value_row..][..shape.head], probabilities[other], output_gradient);
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
    let (products, _) = products.as_chunks_mut::<BLOCK>();
    let start = key_head * shape.head * BLOCK;
    for block in 0..products.len() {
        let (dimensions, _) = blocks.block(block)[start..][..shape.head * BLOCK].as_chunks::<BLOCK>();
        let vector = &vector[..dimensions.len()];
        let mut sums = [0.0; BLOCK];
        for dimension in 0..dimensions.len() {
            for lane in 0..BLOCK {
                sums[lane] += vector[dimension] * dimensions[dimension][lane];
            }
        }
        products[block] = sums;
    }
}

/// The mean under `probabilities` of each position's numbers from `start` on.
#[inline(always)]
fn mean_of_values(
    probabilities: &[f32],
    values: &impl Blocks,
    start: usize,
    stride: usize,
    length: usize,
    mean: &mut [f32],
) {
    let blocks_of_positions = length.div_ceil(BLOCK);
    let (blocks, rest) = mean.as_chunks_mut::<LANES>();
    for block in 0..blocks.len() {
        let mut sums = [0.0; LANES];
        for at in 0..blocks_of_positions {
            let rows = &values.block(at)[start + block * LANES..];
            for position in 0..BLOCK.min(length - at * BLOCK) {
                let (row, _) = rows[position * stride..][..LANES].as_chunks::<LANES>();
                for lane in 0..LANES {
                    sums[lane] += probabilities[at * BLOCK + position] * row[0][lane];
                }
            }
        }
        blocks[block] = sums;
    }
    let start = start + blocks.len() * LANES;
    for index in 0..rest.len() {
        let mut sum = 0.0;
        for at in 0..blocks_of_positions {
            let rows = &values.block(at)[start + index..];
            for position in 0..BLOCK.min(length - at * BLOCK) {
                sum += probabilities[at * BLOCK + position] * rows[position * stride];
            }
        }
        rest[index] = sum;
    }
}
