use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fulgurite_backends::derive_seed;
use serde::{Deserialize, Serialize};

/// What is done with a client that gives the same seed with every call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatedSeeds {
    /// The calls after the first with the same weights, seed and prompt get seeds of their own, which follow from how many there
    /// were: a group whose members all send one seed still differs.
    #[default]
    Derive,
    /// The same seed gives the same tokens.
    Literal,
}

/// Seeds and prompts that are remembered; when there are more, counting begins anew.
const REMEMBERED: usize = 1 << 18;

/// How often each seed came with each prompt.
#[derive(Debug, Default)]
pub(crate) struct SeedCounts {
    counts: Mutex<HashMap<u64, u64>>,
    was_warned: AtomicBool,
}

/// The seed of a call, and how many there were before with the same seed and prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CountedSeed {
    pub(crate) seed: u64,
    pub(crate) repetition: u64,
}

impl SeedCounts {
    /// Whether it was said before that seeds repeat; from now on it was.
    pub(crate) fn was_warned(&self) -> bool {
        self.was_warned.swap(true, Ordering::Relaxed)
    }

    /// Counts a call with a client's own seed. What other weights say is no repetition: evaluations of each are paired.
    pub(crate) fn count(&self, weights: &str, seed: u64, prompt: &[u32]) -> CountedSeed {
        let mut hasher = DefaultHasher::new();
        (weights, seed, prompt).hash(&mut hasher);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= REMEMBERED {
            counts.clear();
        }
        let count = counts.entry(hasher.finish()).or_default();
        let repetition = *count;
        *count += 1;
        let seed = match repetition {
            0 => seed,
            _ => derive_seed(seed, &["repetition", &repetition.to_string()]),
        };
        CountedSeed { seed, repetition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_has_its_own_seed_and_each_repetition_another_that_is_always_the_same() {
        let seeds = || {
            let counts = SeedCounts::default();
            [[1, 2], [1, 2], [1, 3], [1, 2]].map(|prompt| counts.count("w", 42, &prompt).seed)
        };
        let [first, second, other, third] = seeds();
        assert_eq!((first, other), (42, 42));
        assert!(second != 42 && third != 42 && second != third);
        assert_eq!(seeds(), [first, second, other, third]);
        let counts = SeedCounts::default();
        assert_eq!(["w", "v"].map(|weights| counts.count(weights, 42, &[1]).seed), [42, 42]);
    }
}
