//! Orders of many things that take no memory: the place of each is computed.

use std::collections::{HashMap, HashSet};

use fulgurite_backends::derive_seed;

/// The numbers below a limit in an order that follows from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    keys: [u64; ROUNDS],
    /// Bits of one half; both together hold every number below the limit.
    half_bits: u32,
    limit: u64,
}

/// Rounds of the network: four are told from chance by nobody who shuffles, six cost nothing.
const ROUNDS: usize = 6;

impl Permutation {
    pub(crate) fn new(seed: u64, limit: u64) -> Self {
        let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|round| derive_seed(seed, &["round", &round.to_string()]));
        Self { keys, half_bits: bits.div_ceil(2).max(1), limit }
    }

    /// The number that stands at `place`, which is below the limit as it is. A Feistel network permutes the next power of
    /// four; what falls outside goes through it again, which ends where it began at the latest.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut number = self.network(place);
        while number >= self.limit {
            number = self.network(number);
        }
        number
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mixed(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// Every bit of the result depends on every bit of the number (splitmix64's finaliser).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What becomes of the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    HeldOut,
    Trained,
}

/// The sides of groups on which has been decided.
pub(crate) type Sides = HashMap<u64, Side>;

/// Which conversations are trained, and in which order: a pure function of the seed and of a place in it.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    seed: u64,
    /// Which ones are held out stands first.
    chosen: Permutation,
    held_out: u64,
    trained: u64,
    /// Where rows stay together: all rows, those that are held out first. Otherwise their places are computed.
    divided: Option<Vec<u64>>,
}

impl Split {
    /// Of `all` conversations, `held_out` are not trained.
    pub(crate) fn new(seed: u64, all: u64, held_out: u64) -> Self {
        let chosen = Permutation::new(derive_seed(seed, &["validation"]), all);
        let seed = derive_seed(seed, &["conversations"]);
        Self { seed, chosen, held_out, trained: all - held_out, divided: None }
    }

    /// The same, but rows of one group are all held out or all trained, also of groups on whose side `sides` has decided for
    /// other files: those of these are added. Held out is what comes nearest to `held_out` rows. Without rows that have a
    /// group in common, it is the same to the row. `None` if that leaves nothing to train.
    pub(crate) fn of_groups(seed: u64, groups: &[u64], held_out: u64, sides: &mut Sides) -> Option<Self> {
        let mut split = Self::new(seed, groups.len() as u64, held_out);
        let mut members: HashMap<u64, Vec<u64>> = HashMap::new();
        for (row, group) in groups.iter().enumerate() {
            members.entry(*group).or_default().push(row as u64);
        }
        if members.len() == groups.len() && members.keys().all(|group| !sides.contains_key(group)) {
            sides.extend(groups.iter().map(|group| (*group, Side::Trained)));
            sides.extend(split.held_out().map(|row| (groups[row as usize], Side::HeldOut)));
            return Some(split);
        }
        // Groups in the order of their first rows.
        let mut order: Vec<u64> = Vec::with_capacity(members.len());
        let mut seen = HashSet::new();
        let chosen = (0..groups.len() as u64).map(|place| groups[split.chosen.at(place) as usize]);
        order.extend(chosen.filter(|group| seen.insert(*group)));
        let size = |group: &u64| members[group].len() as u64;
        let mut scored: u64 = order.iter().filter(|group| sides.get(group) == Some(&Side::HeldOut)).map(size).sum();
        let open: Vec<u64> = order.into_iter().filter(|group| !sides.contains_key(group)).collect();
        for group in &open {
            let missing = held_out.saturating_sub(scored);
            let is_nearer = missing > 0 && size(group) <= 2 * missing;
            scored += if is_nearer { size(group) } else { 0 };
            sides.insert(*group, if is_nearer { Side::HeldOut } else { Side::Trained });
        }
        if let (0, Some(smallest)) = (scored, open.iter().min_by_key(|group| size(group))) {
            sides.insert(*smallest, Side::HeldOut);
        }
        let rows = (0..groups.len() as u64).map(|place| split.chosen.at(place));
        let (mut scored, mut trained): (Vec<u64>, Vec<u64>) =
            rows.partition(|row| sides.get(&groups[*row as usize]) == Some(&Side::HeldOut));
        (split.held_out, split.trained) = (scored.len() as u64, trained.len() as u64);
        scored.append(&mut trained);
        split.divided = Some(scored);
        (split.trained > 0).then_some(split)
    }

    pub(crate) fn trained(&self) -> u64 {
        self.trained
    }

    pub(crate) fn held_out(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.held_out).map(|place| self.conversation(place))
    }

    /// All that are trained, in no order that means anything.
    pub(crate) fn all_trained(&self) -> impl Iterator<Item = u64> + '_ {
        (self.held_out..self.held_out + self.trained).map(|place| self.conversation(place))
    }

    /// Those that stand at `cursor` and behind it, `count` at most, and none of the next epoch.
    pub(crate) fn read(&self, cursor: u64, count: u64) -> Vec<u64> {
        let (epoch, place) = (cursor / self.trained, cursor % self.trained);
        let order = Permutation::new(derive_seed(self.seed, &[&epoch.to_string()]), self.trained);
        let end = (place + count).min(self.trained);
        (place..end).map(|place| self.conversation(self.held_out + order.at(place))).collect()
    }

    fn conversation(&self, place: u64) -> u64 {
        if let Some(divided) = &self.divided {
            return divided.get(place as usize).copied().unwrap_or_default();
        }
        // Without any held out, conversations are in their own order before they are shuffled.
        if self.held_out == 0 { place } else { self.chosen.at(place) }
    }
}

/// The rows of one file in its order, or those of several in one of theirs.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    One(Split),
    Mixed(MixedOrder),
}

impl From<Split> for Order {
    fn from(split: Split) -> Self {
        Self::One(split)
    }
}

/// The order of rows of several files, one file behind the other by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct MixedOrder {
    seed: u64,
    files: Vec<FileOrder>,
    /// Rows of an epoch.
    reads: u64,
}

/// Of a file of several.
#[derive(Clone, Debug)]
struct FileOrder {
    split: Split,
    /// Rows of the files before it.
    first: u64,
    /// Rows of it in an epoch, and those of the files before it.
    reads: u64,
    reads_before: u64,
}

impl Order {
    /// Files of which an epoch reads so many rows each. A file goes on in its own order where the epoch before ended.
    pub(crate) fn mixed(seed: u64, splits: Vec<Split>, reads: &[u64]) -> Self {
        let (mut first, mut reads_before) = (0, 0);
        let mut files = Vec::with_capacity(splits.len());
        for (split, reads) in splits.into_iter().zip(reads) {
            let rows = split.held_out + split.trained;
            files.push(FileOrder { split, first, reads: *reads, reads_before });
            (first, reads_before) = (first + rows, reads_before + reads);
        }
        Self::Mixed(MixedOrder { seed: derive_seed(seed, &["mixture"]), files, reads: reads_before })
    }

    /// Rows of an epoch.
    pub(crate) fn trained(&self) -> u64 {
        match self {
            Self::One(split) => split.trained(),
            Self::Mixed(mixed) => mixed.reads,
        }
    }

    /// Rows of each file that an epoch reads.
    pub(crate) fn reads(&self) -> Vec<u64> {
        match self {
            Self::One(split) => vec![split.trained()],
            Self::Mixed(mixed) => mixed.files.iter().map(|file| file.reads).collect(),
        }
    }

    /// Rows that are not trained.
    pub(crate) fn held_out(&self) -> Vec<u64> {
        match self {
            Self::One(split) => split.held_out().collect(),
            Self::Mixed(mixed) => {
                let of_file = |file: &FileOrder| file.split.held_out().map(|row| file.first + row).collect::<Vec<_>>();
                mixed.files.iter().flat_map(of_file).collect()
            }
        }
    }

    /// All rows that are trained, each once, in no order that means anything.
    pub(crate) fn all_trained(&self) -> Vec<u64> {
        match self {
            Self::One(split) => split.all_trained().collect(),
            Self::Mixed(mixed) => {
                let of_file =
                    |file: &FileOrder| file.split.all_trained().map(|row| file.first + row).collect::<Vec<_>>();
                mixed.files.iter().flat_map(of_file).collect()
            }
        }
    }

    /// Those that stand at `cursor` and behind it, `count` at most, and none of the next epoch.
    pub(crate) fn read(&self, cursor: u64, count: u64) -> Vec<u64> {
        match self {
            Self::One(split) => split.read(cursor, count),
            Self::Mixed(mixed) => mixed.read(cursor, count),
        }
    }
}

impl MixedOrder {
    fn read(&self, cursor: u64, count: u64) -> Vec<u64> {
        let (epoch, place) = (cursor / self.reads, cursor % self.reads);
        let order = Permutation::new(derive_seed(self.seed, &[&epoch.to_string()]), self.reads);
        let end = (place + count).min(self.reads);
        (place..end).filter_map(|place| self.row(epoch, order.at(place))).collect()
    }

    fn row(&self, epoch: u64, number: u64) -> Option<u64> {
        let file = self.files.iter().rfind(|file| file.reads_before <= number)?;
        let own = epoch * file.reads + number - file.reads_before;
        Some(file.first + file.split.read(own, 1).first()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_epoch_reads_each_conversation_once_and_a_cursor_reads_on() {
        let split = Split::new(7, 103, 10);
        let epoch = |cursor: u64| -> Vec<u64> { (0..93).flat_map(|place| split.read(cursor + place, 1)).collect() };
        let (first, second) = (epoch(0), epoch(93));
        assert_ne!(first, second, "each epoch has an order of its own");
        let mut all: Vec<u64> = first.iter().copied().chain(split.held_out()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<_>>());
        assert_eq!(split.read(90, 8), first[90..], "no batch goes over an epoch's end");
        assert_ne!(Split::new(8, 103, 10).read(0, 20), first[..20]);
    }

    #[test]
    fn rows_of_one_group_are_all_held_out_or_all_trained() {
        let alone: Vec<u64> = (0..40).collect();
        let (single, plain) = (Split::of_groups(3, &alone, 8, &mut Sides::new()).unwrap(), Split::new(3, 40, 8));
        assert_eq!((single.read(5, 12), single.held_out().count()), (plain.read(5, 12), 8));
        let groups: Vec<u64> = (0..60).map(|row| row / 5).collect();
        let split = Split::of_groups(3, &groups, 13, &mut Sides::new()).unwrap();
        let held_out: Vec<u64> = split.held_out().collect();
        assert_eq!((held_out.len(), split.trained()), (15, 45), "groups of five");
        let trained: Vec<u64> = (0..45).flat_map(|place| split.read(place, 1)).collect();
        assert!(
            held_out.iter().all(|row| trained.iter().all(|other| groups[*row as usize] != groups[*other as usize]))
        );
        let mut all: Vec<u64> = [trained, held_out].concat();
        all.sort_unstable();
        assert_eq!(all, (0..60).collect::<Vec<_>>());
        assert!(Split::of_groups(3, &[7; 10], 1, &mut Sides::new()).is_none(), "all of one group");
    }

    #[test]
    fn a_group_that_is_far_larger_than_the_share_is_trained() {
        let groups: Vec<u64> = (0..100).map(|row: u64| row.saturating_sub(94)).collect();
        for seed in 0..8 {
            let split = Split::of_groups(seed, &groups, 2, &mut Sides::new()).unwrap();
            assert_eq!((split.held_out().count(), split.trained()), (2, 98));
        }
        let two: Vec<u64> = (0..50).map(|row| row / 25).collect();
        let split = Split::of_groups(3, &two, 1, &mut Sides::new()).unwrap();
        assert_eq!((split.held_out().count(), split.trained()), (25, 25), "the smallest that there is");
    }

    #[test]
    fn a_group_is_on_one_side_in_all_files() {
        let first: Vec<u64> = (0..40).collect();
        let second: Vec<u64> = (0..40).rev().chain(100..140).collect();
        let mut sides = Sides::new();
        let splits = [&first, &second].map(|groups| Split::of_groups(3, groups, 8, &mut sides).unwrap());
        let held_out = |split: &Split, groups: &[u64]| -> HashSet<u64> {
            split.held_out().map(|row| groups[row as usize]).collect()
        };
        let (one, other) = (held_out(&splits[0], &first), held_out(&splits[1], &second));
        assert_eq!((one.len(), splits[1].trained()), (8, 72));
        assert_eq!(one, other, "what the first file holds out is all that the second may");
    }

    #[test]
    fn an_epoch_of_a_mixture_reads_of_each_file_what_it_is_due_and_each_goes_on_where_it_ended() {
        let splits = vec![Split::new(1, 10, 0), Split::new(2, 6, 2)];
        let order = Order::mixed(5, splits, &[5, 8]);
        assert_eq!((order.trained(), order.held_out().len(), order.all_trained().len()), (13, 2, 14));
        let epoch = |epoch: u64| -> Vec<u64> { (0..13).flat_map(|place| order.read(13 * epoch + place, 1)).collect() };
        let of_first = |rows: &[u64]| rows.iter().copied().filter(|row| *row < 10).collect::<Vec<_>>();
        let (first, second) = (epoch(0), epoch(1));
        let mut both = [of_first(&first), of_first(&second)].concat();
        both.sort_unstable();
        assert_eq!(both, (0..10).collect::<Vec<_>>(), "five of ten, and the other five after");
        // Four rows of the other file, each twice.
        let mut other: Vec<u64> = first.iter().copied().filter(|row| *row >= 10).collect();
        other.sort_unstable();
        assert_eq!((other.len(), other.chunks(2).all(|pair| pair[0] == pair[1])), (8, true), "{other:?}");
        assert_eq!(order.read(11, 9).len(), 2, "no batch goes over an epoch's end");
    }

    proptest! {
        #[test]
        fn a_permutation_has_every_number_once(seed in any::<u64>(), limit in 1u64..600) {
            let permutation = Permutation::new(seed, limit);
            let mut all: Vec<u64> = (0..limit).map(|place| permutation.at(place)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..limit).collect::<Vec<_>>());
        }
    }
}
