use std::sync::Arc;

use crate::kernels::{AttentionShape, BLOCK, Blocks, store_keys};
use crate::model::weights::Model;

/// Keys and values of [`BLOCK`] tokens in every layer: of each layer the keys, as [`store_keys`] lays them out, and then
/// the values, `[BLOCK, key_heads, head]`.
#[derive(Debug)]
pub(crate) struct CacheBlock(Box<[f32]>);

impl CacheBlock {
    pub(crate) fn new(model: &Model) -> Self {
        Self(vec![0.0; Self::numbers(model)].into_boxed_slice())
    }

    fn numbers(model: &Model) -> usize {
        2 * model.config.num_hidden_layers * model.attention.key_block()
    }

    /// Memory that a block of this model takes, in bytes.
    pub(crate) fn bytes(model: &Model) -> usize {
        Self::numbers(model) * size_of::<f32>()
    }
}

/// Keys and values of one sequence's tokens so far. Full blocks never change again, so that sequences can share them.
#[derive(Debug, Default)]
pub(crate) struct KeyValueCache {
    full: Vec<Arc<CacheBlock>>,
    /// What comes after them: this sequence's own, and not full between passes.
    open: Vec<CacheBlock>,
    length: usize,
}

impl KeyValueCache {
    /// Tokens that it holds.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The blocks that are full.
    pub(crate) fn full_blocks(&self) -> &[Arc<CacheBlock>] {
        &self.full
    }

    /// Takes over the next block from another sequence. This one's own blocks must be full.
    pub(crate) fn share(&mut self, block: Arc<CacheBlock>) {
        debug_assert!(self.open.is_empty());
        self.full.push(block);
        self.length += BLOCK;
    }

    /// Puts an equal block in the place of a full one, whose memory is free then.
    pub(crate) fn replace(&mut self, index: usize, equal: Arc<CacheBlock>) {
        self.full[index] = equal;
    }

    /// Makes room for so many tokens more.
    pub(crate) fn make_room(&mut self, model: &Model, tokens: usize) {
        let blocks = (self.length + tokens).div_ceil(BLOCK);
        self.open.resize_with(blocks - self.full.len(), || CacheBlock::new(model));
    }

    /// Writes one layer's keys and values of a position for which there is room.
    pub(crate) fn store(&mut self, shape: AttentionShape, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let CacheBlock(numbers) = &mut self.open[position / BLOCK - self.full.len()];
        let of_layer = &mut numbers[2 * layer * shape.key_block()..][..2 * shape.key_block()];
        let (key_block, value_rows) = of_layer.split_at_mut(shape.key_block());
        store_keys(shape, keys, position % BLOCK, key_block);
        value_rows[position % BLOCK * values.len()..][..values.len()].copy_from_slice(values);
    }

    /// Takes note that so many tokens are there in every layer.
    pub(crate) fn grow(&mut self, tokens: usize) {
        self.length += tokens;
        let filled = self.length / BLOCK - self.full.len();
        self.full.extend(self.open.drain(..filled).map(Arc::new));
    }

    /// One layer's keys.
    pub(crate) fn keys(&self, shape: AttentionShape, layer: usize) -> LayerBlocks<'_> {
        LayerBlocks { cache: self, start: 2 * layer * shape.key_block(), size: shape.key_block() }
    }

    /// One layer's values: rows as wide as all key heads.
    pub(crate) fn values(&self, shape: AttentionShape, layer: usize) -> LayerBlocks<'_> {
        LayerBlocks { cache: self, start: (2 * layer + 1) * shape.key_block(), size: shape.key_block() }
    }
}

/// One layer's keys or values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerBlocks<'a> {
    cache: &'a KeyValueCache,
    start: usize,
    size: usize,
}

impl Blocks for LayerBlocks<'_> {
    #[inline(always)]
    fn block(&self, index: usize) -> &[f32] {
        let KeyValueCache { full, open, .. } = self.cache;
        let CacheBlock(numbers) = if index < full.len() { &full[index] } else { &open[index - full.len()] };
        &numbers[self.start..self.start + self.size]
    }
}
