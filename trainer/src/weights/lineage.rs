//! The tree of a run's weights: what each update was made of, and how many updates lie between two of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fulgurite_types::WeightsId;

/// Weights with a version, as a run sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KnownWeights {
    pub(crate) weights_id: WeightsId,
    /// The weights that they were made of.
    pub(crate) parent_id: Option<WeightsId>,
    /// What their tokens are recorded with.
    pub(crate) version: u64,
    /// Updates of the run behind them.
    pub(crate) step: u64,
}

/// For each version that a run can name: the updates between it and the weights that the learner has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct VersionDistances(Arc<BTreeMap<u64, u64>>);

impl VersionDistances {
    /// Of pairs of a version and its distance.
    #[cfg(test)]
    pub(crate) fn of(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self(Arc::new(pairs.into_iter().collect()))
    }

    /// How far away a version is; `None` if the run cannot name its weights.
    pub(crate) fn of_version(&self, version: u64) -> Option<u64> {
        self.0.get(&version).copied()
    }
}

/// The weights that a run can name, and those that the learner has.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    known: BTreeMap<WeightsId, KnownWeights>,
    head: Option<WeightsId>,
    distances: VersionDistances,
}

impl Lineage {
    /// Adds weights, or corrects what was known of them.
    pub(super) fn add(&mut self, weights: KnownWeights) {
        self.known.insert(weights.weights_id, weights);
    }

    /// Says that the learner has these weights.
    pub(super) fn move_to(&mut self, weights: KnownWeights) {
        self.add(weights);
        self.head = Some(weights.weights_id);
        self.distances = self.measure();
    }

    /// The weights that the learner has.
    pub(super) fn head(&self) -> Option<KnownWeights> {
        self.known.get(&self.head?).copied()
    }

    pub(super) fn find(&self, id: WeightsId) -> Option<KnownWeights> {
        self.known.get(&id).copied()
    }

    pub(super) fn distances(&self) -> VersionDistances {
        self.distances.clone()
    }

    /// The weights after `step` updates, among those that the learner's were made of.
    pub(super) fn ancestor(&self, step: u64) -> Option<KnownWeights> {
        let mut next = self.head();
        // No path is longer than the tree is large, whatever its rows say.
        for _ in 0..=self.known.len() {
            let weights = next.filter(|weights| weights.step != step);
            let Some(weights) = weights else { return next };
            next = weights.parent_id.and_then(|parent| self.known.get(&parent)).copied();
        }
        None
    }

    /// Along the tree: back to where two weights part, and on from there. Between what a run was started with and what it calls
    /// its start there is no update.
    fn measure(&self) -> VersionDistances {
        let mut children: HashMap<WeightsId, Vec<WeightsId>> = HashMap::new();
        for weights in self.known.values() {
            if let Some(parent) = weights.parent_id {
                children.entry(parent).or_default().push(weights.weights_id);
            }
        }
        let mut distances: HashMap<WeightsId, u64> = HashMap::new();
        let mut open: Vec<(WeightsId, u64)> = self.head.into_iter().map(|head| (head, 0)).collect();
        while let Some((id, distance)) = open.pop() {
            let Some(weights) = self.known.get(&id) else { continue };
            if distances.insert(id, distance).is_some() {
                continue;
            }
            let near = weights.parent_id.into_iter().chain(children.get(&id).into_iter().flatten().copied());
            let near = near.filter(|id| !distances.contains_key(id)).collect::<Vec<_>>();
            open.extend(near.into_iter().filter_map(|id| {
                let updates = self.known.get(&id)?.step.abs_diff(weights.step);
                Some((id, distance + updates))
            }));
        }
        let versions =
            self.known.values().filter_map(|weights| Some((weights.version, *distances.get(&weights.weights_id)?)));
        VersionDistances(Arc::new(versions.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(id: u8, parent: Option<u8>, version: u64, step: u64) -> KnownWeights {
        let id_of = |number: u8| WeightsId::of_digest([number; 32]);
        KnownWeights { weights_id: id_of(id), parent_id: parent.map(id_of), version, step }
    }

    #[test]
    fn distances_are_counted_back_to_where_two_weights_part_and_on() {
        let mut lineage = Lineage::default();
        // 0 -> 1 -> 2 -> 3, and 1 -> 12 -> 13 made anew after a return to 1; 9 is of nobody.
        for one in [(0, None, 0, 0), (1, Some(0), 1, 1), (2, Some(1), 2, 2), (3, Some(2), 3, 3), (12, Some(1), 4, 2)] {
            lineage.add(weights(one.0, one.1, one.2, one.3));
        }
        lineage.add(weights(9, Some(8), 7, 1));
        lineage.move_to(weights(13, Some(12), 5, 3));
        let distances = lineage.distances();
        let of: Vec<Option<u64>> = (0..8).map(|version| distances.of_version(version)).collect();
        assert_eq!(of, [Some(3), Some(2), Some(3), Some(4), Some(1), Some(0), None, None]);
        let ancestors: Vec<u64> = (0..4).map(|step| lineage.ancestor(step).unwrap().version).collect();
        assert_eq!((ancestors, lineage.ancestor(4)), (vec![0, 1, 4, 5], None));
    }

    #[test]
    fn the_start_of_a_run_is_what_it_was_started_with() {
        let mut lineage = Lineage::default();
        lineage.add(weights(0, None, 0, 0));
        lineage.move_to(weights(1, Some(0), 6, 0));
        assert_eq!(lineage.distances(), VersionDistances::of([(0, 0), (6, 0)]));
        lineage.move_to(weights(2, Some(1), 7, 1));
        assert_eq!(lineage.distances(), VersionDistances::of([(0, 1), (6, 1), (7, 0)]));
        assert_eq!(lineage.ancestor(0).unwrap().version, 6);
    }

    #[test]
    fn rows_that_go_round_in_a_circle_end() {
        let mut lineage = Lineage::default();
        lineage.add(weights(1, Some(2), 1, 1));
        lineage.move_to(weights(2, Some(1), 2, 2));
        assert_eq!(lineage.distances(), VersionDistances::of([(1, 1), (2, 0)]));
        assert_eq!(lineage.ancestor(7), None);
    }
}
