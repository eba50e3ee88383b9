//! Orders of many things that take no memory: the place of each is computed.

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

/// Which conversations are trained, and in which order: a pure function of the seed and of a place in it.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    seed: u64,
    /// Which ones are held out stands first.
    chosen: Permutation,
    held_out: u64,
    trained: u64,
}

impl Split {
    /// Of `all` conversations, `held_out` are not trained.
    pub(crate) fn new(seed: u64, all: u64, held_out: u64) -> Self {
        let chosen = Permutation::new(derive_seed(seed, &["validation"]), all);
        Self { seed: derive_seed(seed, &["conversations"]), chosen, held_out, trained: all - held_out }
    }

    pub(crate) fn trained(&self) -> u64 {
        self.trained
    }

    pub(crate) fn held_out(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.held_out).map(|place| self.conversation(place))
    }

    /// Those that stand at `cursor` and behind it, `count` at most, and none of the next epoch.
    pub(crate) fn read(&self, cursor: u64, count: u64) -> Vec<u64> {
        let (epoch, place) = (cursor / self.trained, cursor % self.trained);
        let order = Permutation::new(derive_seed(self.seed, &[&epoch.to_string()]), self.trained);
        let end = (place + count).min(self.trained);
        (place..end).map(|place| self.conversation(self.held_out + order.at(place))).collect()
    }

    fn conversation(&self, place: u64) -> u64 {
        // Without any held out, conversations are in their own order before they are shuffled.
        if self.held_out == 0 { place } else { self.chosen.at(place) }
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
