use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use metrics::Gauge;

use crate::kernels::BLOCK;
use crate::sampling::key_value_cache::CacheBlock;
use crate::sampling::published::Published;
use crate::telemetry::prefix_cache_bytes;

/// The tokens of one block.
pub(crate) type BlockTokens = [u32; BLOCK];

/// Blocks of keys and values by the weights and by all tokens up to their end, for sequences that begin alike.
///
/// The blocks of one version of the weights are a tree: a path from its root spells a sequence's beginning. When there
/// is no room for another block, the leaf that was used longest ago goes. Blocks of weights that are not sampled from
/// any more go first, by [`evict_unused_weights`](Self::evict_unused_weights).
#[derive(Debug)]
pub(crate) struct PrefixCache {
    /// Greatest sum of the blocks' sizes, in bytes.
    budget: usize,
    trees: Vec<Tree>,
    /// Counts up with every use of a block.
    clock: u64,
    gauge: Gauge,
}

/// A place in the tree of some weights: the end of a block, or the root. A place that is gone is never another's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u64);

/// The beginning of all sequences.
pub(crate) const ROOT: Place = Place(0);

/// The blocks of one version of the weights.
#[derive(Debug)]
struct Tree {
    /// Tells the weights by their address, which is not another's as long as this is kept.
    weights: Weak<Published>,
    block_bytes: usize,
    nodes: HashMap<Place, Node>,
    /// The node of a block, by the place that it follows and its tokens.
    steps: HashMap<(Place, BlockTokens), Place>,
    /// Nodes that none follows, by when they were used.
    leaves: BTreeMap<u64, Place>,
    /// Nodes that there have ever been.
    made: u64,
}

#[derive(Debug)]
struct Node {
    block: Arc<CacheBlock>,
    follows: Place,
    tokens: BlockTokens,
    followers: usize,
    used: u64,
}

impl PrefixCache {
    /// Keeps blocks of so many bytes together.
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, trees: Vec::new(), clock: 0, gauge: prefix_cache_bytes() }
    }

    /// The block of these tokens after `place`, if it is there, and the place at its end.
    pub(crate) fn find(
        &mut self,
        weights: &Arc<Published>,
        place: Place,
        tokens: &BlockTokens,
    ) -> Option<(Place, Arc<CacheBlock>)> {
        self.clock += 1;
        let tree = self.trees.iter_mut().find(|tree| tree.is_of(weights))?;
        let found = *tree.steps.get(&(place, *tokens))?;
        let block = tree.touch(found, self.clock)?;
        Some((found, block))
    }

    /// Takes a block of these tokens after `place`. Tells the place at its end, and the block that is there from now on:
    /// an equal one if that was there already. `None` if there is no room for it, or `place` is gone.
    pub(crate) fn insert(
        &mut self,
        weights: &Arc<Published>,
        place: Place,
        tokens: &BlockTokens,
        block: &Arc<CacheBlock>,
    ) -> Option<(Place, Arc<CacheBlock>)> {
        if let Some(known) = self.find(weights, place, tokens) {
            return Some(known);
        }
        let index = self.tree(weights);
        let tree = &mut self.trees[index];
        if place != ROOT && !tree.nodes.contains_key(&place) {
            return None;
        }
        tree.count_follower(place);
        let block_bytes = tree.block_bytes;
        let has_room = self.make_room(block_bytes);
        let tree = &mut self.trees[index];
        if !has_room {
            tree.drop_follower(place);
            return None;
        }
        self.gauge.increment(block_bytes as f64);
        Some((tree.add(place, tokens, block.clone(), self.clock), block.clone()))
    }

    /// Drops the blocks of weights that nothing samples from any more.
    pub(crate) fn evict_unused_weights(&mut self) {
        let before = self.bytes();
        self.trees.retain(|tree| tree.weights.strong_count() > 0);
        self.gauge.decrement((before - self.bytes()) as f64);
    }

    /// Bytes of all blocks.
    fn bytes(&self) -> usize {
        self.trees.iter().map(Tree::bytes).sum()
    }

    fn tree(&mut self, weights: &Arc<Published>) -> usize {
        self.trees.iter().position(|tree| tree.is_of(weights)).unwrap_or_else(|| {
            self.trees.push(Tree::new(weights));
            self.trees.len() - 1
        })
    }

    /// Whether there is room for so many bytes, once the leaves that were used longest ago are gone.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.bytes() + bytes > self.budget {
            let oldest = self.trees.iter_mut().filter(|tree| !tree.leaves.is_empty());
            let Some(tree) = oldest.min_by_key(|tree| tree.leaves.keys().next().copied()) else { return false };
            tree.drop_oldest_leaf();
            self.gauge.decrement(tree.block_bytes as f64);
        }
        true
    }
}

impl Drop for PrefixCache {
    fn drop(&mut self) {
        self.gauge.decrement(self.bytes() as f64);
    }
}

impl Tree {
    fn new(weights: &Arc<Published>) -> Self {
        Self {
            weights: Arc::downgrade(weights),
            block_bytes: CacheBlock::bytes(&weights.policy.weights.model),
            nodes: HashMap::new(),
            steps: HashMap::new(),
            leaves: BTreeMap::new(),
            made: 0,
        }
    }

    fn is_of(&self, weights: &Arc<Published>) -> bool {
        std::ptr::eq(self.weights.as_ptr(), Arc::as_ptr(weights))
    }

    fn bytes(&self) -> usize {
        self.nodes.len() * self.block_bytes
    }

    fn add(&mut self, follows: Place, tokens: &BlockTokens, block: Arc<CacheBlock>, now: u64) -> Place {
        self.made += 1;
        let place = Place(self.made);
        self.nodes.insert(place, Node { block, follows, tokens: *tokens, followers: 0, used: now });
        self.steps.insert((follows, *tokens), place);
        self.leaves.insert(now, place);
        place
    }

    /// The block of a place, which is used now.
    fn touch(&mut self, place: Place, now: u64) -> Option<Arc<CacheBlock>> {
        let node = self.nodes.get_mut(&place)?;
        if node.followers == 0 {
            self.leaves.remove(&node.used);
            self.leaves.insert(now, place);
        }
        node.used = now;
        Some(node.block.clone())
    }

    fn count_follower(&mut self, place: Place) {
        if let Some(node) = self.nodes.get_mut(&place) {
            node.followers += 1;
            self.leaves.remove(&node.used);
        }
    }

    fn drop_follower(&mut self, place: Place) {
        if let Some(node) = self.nodes.get_mut(&place) {
            node.followers -= 1;
            if node.followers == 0 {
                self.leaves.insert(node.used, place);
            }
        }
    }

    fn drop_oldest_leaf(&mut self) {
        if let Some((_, place)) = self.leaves.pop_first()
            && let Some(node) = self.nodes.remove(&place)
        {
            self.steps.remove(&(node.follows, node.tokens));
            self.drop_follower(node.follows);
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::WeightsVersion;
    use proptest::prelude::*;

    use super::*;
    use crate::adapters::policy::Policy;
    use crate::kernels::Precision;
    use crate::model::weights::{Model, Weights};
    use crate::test_models::tiny_config;

    fn published() -> Arc<Published> {
        let model = Arc::new(Model::new(tiny_config()));
        let weights = Arc::new(Weights::zeros(model, |_| Precision::Single));
        Arc::new(Published { version: WeightsVersion(0), policy: Policy::of(weights) })
    }

    fn block(weights: &Published) -> Arc<CacheBlock> {
        Arc::new(CacheBlock::new(&weights.policy.weights.model))
    }

    /// A cache with room for so many blocks.
    fn cache(blocks: usize, weights: &Published) -> PrefixCache {
        PrefixCache::new(blocks * CacheBlock::bytes(&weights.policy.weights.model))
    }

    /// Inserts a sequence of blocks, each named by one number; how many were taken.
    fn insert(cache: &mut PrefixCache, weights: &Arc<Published>, sequence: &[u32]) -> usize {
        let mut place = ROOT;
        for (inserted, &name) in sequence.iter().enumerate() {
            match cache.insert(weights, place, &[name; BLOCK], &block(weights)) {
                Some((next, _)) => place = next,
                None => return inserted,
            }
        }
        sequence.len()
    }

    /// How many blocks of a sequence are found, from its beginning on.
    fn find(cache: &mut PrefixCache, weights: &Arc<Published>, sequence: &[u32]) -> usize {
        let mut place = ROOT;
        for (found, &name) in sequence.iter().enumerate() {
            match cache.find(weights, place, &[name; BLOCK]) {
                Some((next, _)) => place = next,
                None => return found,
            }
        }
        sequence.len()
    }

    #[test]
    fn a_block_is_found_only_after_the_blocks_that_it_came_after() {
        let weights = published();
        let mut cache = cache(9, &weights);
        assert_eq!(insert(&mut cache, &weights, &[1, 2, 3]), 3);
        assert_eq!(insert(&mut cache, &weights, &[2, 3]), 2);
        for (sequence, found) in
            [(&[1, 2, 3, 4][..], 3), (&[1, 3, 2], 1), (&[2, 3, 1], 2), (&[2, 1], 1), (&[3], 0), (&[], 0)]
        {
            assert_eq!(find(&mut cache, &weights, sequence), found, "{sequence:?}");
        }
    }

    #[test]
    fn an_equal_block_takes_the_place_of_a_second_one() {
        let weights = published();
        let mut cache = cache(9, &weights);
        let (first, second) = (block(&weights), block(&weights));
        let (place, kept) = cache.insert(&weights, ROOT, &[1; BLOCK], &first).unwrap();
        assert!(Arc::ptr_eq(&kept, &first));
        let (same_place, kept) = cache.insert(&weights, ROOT, &[1; BLOCK], &second).unwrap();
        assert!(Arc::ptr_eq(&kept, &first) && same_place == place);
        assert_eq!(Arc::strong_count(&second), 1);
    }

    #[test]
    fn the_leaf_that_was_used_longest_ago_makes_room() {
        let weights = published();
        let mut cache = cache(4, &weights);
        insert(&mut cache, &weights, &[1, 2]);
        insert(&mut cache, &weights, &[3, 4]);
        find(&mut cache, &weights, &[1, 2]);
        // The end of the other sequence goes before its beginning does.
        insert(&mut cache, &weights, &[5]);
        assert_eq!(find(&mut cache, &weights, &[3, 4]), 1);
        insert(&mut cache, &weights, &[6, 7]);
        assert_eq!(
            [&[1, 2][..], &[3], &[5], &[6, 7]].map(|sequence| find(&mut cache, &weights, sequence)),
            [0, 1, 1, 2]
        );
    }

    #[test]
    fn a_sequence_that_is_longer_than_the_cache_keeps_its_beginning() {
        let weights = published();
        let mut cache = cache(3, &weights);
        insert(&mut cache, &weights, &[8, 9]);
        assert_eq!(insert(&mut cache, &weights, &[1, 2, 3, 4, 5]), 3);
        assert_eq!(find(&mut cache, &weights, &[1, 2, 3, 4, 5]), 3);
        assert_eq!(insert(&mut PrefixCache::new(0), &weights, &[1]), 0);
    }

    #[test]
    fn nothing_follows_a_place_that_is_gone() {
        let weights = published();
        let mut cache = cache(1, &weights);
        let (removed, _) = cache.insert(&weights, ROOT, &[1; BLOCK], &block(&weights)).unwrap();
        insert(&mut cache, &weights, &[2]);
        assert!(cache.insert(&weights, removed, &[3; BLOCK], &block(&weights)).is_none());
        assert!(cache.find(&weights, removed, &[3; BLOCK]).is_none());
    }

    #[test]
    fn blocks_are_those_of_their_weights_and_go_with_them() {
        let (old, new) = (published(), published());
        let mut cache = cache(9, &old);
        insert(&mut cache, &old, &[1, 2]);
        assert_eq!(find(&mut cache, &new, &[1, 2]), 0);
        insert(&mut cache, &new, &[1]);
        let kept = cache.find(&old, ROOT, &[1; BLOCK]).unwrap().1;
        drop(old);
        cache.evict_unused_weights();
        assert_eq!(cache.bytes(), CacheBlock::bytes(&new.policy.weights.model));
        assert_eq!(Arc::strong_count(&kept), 1);
        assert_eq!(find(&mut cache, &new, &[1]), 1);
    }

    proptest! {
        #[test]
        fn the_budget_is_kept_and_what_is_found_was_inserted(
            sequences in proptest::collection::vec((proptest::collection::vec(0..3_u32, 1..6), any::<bool>()), 1..40),
            blocks in 0..8_usize,
        ) {
            let weights = [published(), published()];
            let mut cache = cache(blocks, &weights[0]);
            for (at, (sequence, second)) in sequences.iter().enumerate() {
                let weights = &weights[usize::from(*second)];
                let found = find(&mut cache, weights, sequence);
                let was_inserted = |before: &(Vec<u32>, bool)| before.1 == *second && before.0.starts_with(&sequence[..found]);
                prop_assert!(found == 0 || sequences[..at].iter().any(was_inserted));
                let inserted = insert(&mut cache, weights, sequence);
                prop_assert_eq!(inserted, sequence.len().min(blocks));
                prop_assert_eq!(find(&mut cache, weights, sequence), inserted);
                prop_assert!(cache.bytes() <= cache.budget);
                let leaves: usize = cache.trees.iter().map(|tree| tree.leaves.len()).sum();
                let without_followers = cache.trees.iter().flat_map(|tree| tree.nodes.values()).filter(|node| node.followers == 0);
                prop_assert_eq!(leaves, without_followers.count());
            }
        }
    }
}
