//! Several optimizer steps of one batch.

use std::num::NonZeroUsize;

/// Splits the groups of a batch, in order, into at most `substeps` optimizer steps of nearly equal numbers of groups:
/// step `i` of `k` begins at group `floor(i n / k)`. Never through a group, so that everything that shares a baseline
/// is trained under the same weights.
pub fn split_into_substeps<Group>(groups: Vec<Group>, substeps: NonZeroUsize) -> Vec<Vec<Group>> {
    let count = groups.len();
    let substeps = substeps.get().min(count);
    let mut groups = groups.into_iter();
    (0..substeps)
        .map(|step| {
            let size = (step + 1) * count / substeps - step * count / substeps;
            groups.by_ref().take(size).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objectives::policy::vectors::{doubles_of, vectors};

    #[test]
    fn the_cookbooks_splits_when_every_datum_is_a_group() {
        let file = vectors("rl_batch_2x3.json");
        for substeps in [2, 3] {
            let expected = doubles_of(&file[format!("split_list_num_substeps_{substeps}")]);
            let groups = (0..7).map(f64::from).collect();
            assert_eq!(split_into_substeps(groups, NonZeroUsize::new(substeps).unwrap()), expected);
        }
    }

    #[test]
    fn no_substep_begins_inside_a_group() {
        // The batch's 5 and 2 datums. They split its 7 datums into 3 and 4, or into 2, 2 and 3.
        let groups = || vec![vec![0, 1, 2, 3, 4], vec![5, 6]];
        for substeps in [2, 3] {
            let split = split_into_substeps(groups(), NonZeroUsize::new(substeps).unwrap());
            assert_eq!(split, [[vec![0, 1, 2, 3, 4]], [vec![5, 6]]]);
        }
    }

    proptest! {
        #[test]
        fn a_split_loses_nothing_and_is_even(count in 0..50usize, substeps in 1..20usize) {
            let split = split_into_substeps((0..count).collect(), NonZeroUsize::new(substeps).unwrap());
            prop_assert_eq!(split.len(), substeps.min(count));
            prop_assert_eq!(split.concat(), (0..count).collect::<Vec<_>>());
            let sizes = || split.iter().map(Vec::len);
            prop_assert!(sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1);
        }
    }
}
