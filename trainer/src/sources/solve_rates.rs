//! Which tasks the policy has lately solved how often, and which are tried for that.

use std::collections::BTreeMap;

use fulgurite_backends::derive_seed;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

/// What the last group of a task counts for against those before it.
const LATEST: f64 = 0.5;
/// How likely a task that is always or never solved is tried, against one that is solved half of the time.
const LEAST_WEIGHT: f64 = 0.1;

/// Of each task that was tried, by its index, the share of rollouts that solved it; part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SolveRates(BTreeMap<usize, f64>);

impl SolveRates {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in how many of a task's rollouts have solved it.
    pub(crate) fn learn(&mut self, task: usize, rate: f64) {
        self.0.entry(task).and_modify(|known| *known += LATEST * (rate - *known)).or_insert(rate);
    }

    /// `4 p (1 - p)` of a task that is solved with probability `p`, which is the variance of what it earns against the
    /// greatest that there is; the greatest for one that was never tried.
    fn weight(&self, task: usize) -> f64 {
        self.0.get(&task).map_or(1.0, |rate| (4.0 * rate * (1.0 - rate)).max(LEAST_WEIGHT))
    }

    /// `count` of `total` tasks, no two equal unless there are too few, drawn in proportion to their weights (Efraimidis and
    /// Spirakis 2006). Follows from the rates, the seed and the cursor alone.
    pub(crate) fn draw(&self, seed: u64, total: usize, cursor: u64, count: usize) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(derive_seed(seed, &["task priority", &cursor.to_string()]));
        let mut keys: Vec<(f64, usize)> = (0..total)
            .map(|task| {
                // Above 0 and below 1, of 53 bits.
                let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
                (uniform.ln() / self.weight(task), task)
            })
            .collect();
        keys.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        keys.iter().map(|(_, task)| *task).cycle().take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_follows_the_latest_groups() {
        let mut rates = SolveRates::default();
        for rate in [1.0, 0.0, 0.5] {
            rates.learn(3, rate);
        }
        assert_eq!(serde_json::to_string(&rates).unwrap(), r#"{"3":0.5}"#);
        assert_eq!(serde_json::from_str::<SolveRates>(r#"{"3":0.5}"#).unwrap(), rates);
    }

    #[test]
    fn tasks_that_are_solved_half_of_the_time_are_tried_most_and_no_task_is_given_up() {
        let mut rates = SolveRates::default();
        (0..20).for_each(|task| rates.learn(task, if task < 10 { 0.5 } else { 1.0 }));
        let mut tried = [0; 20];
        for cursor in 0..400 {
            let drawn = rates.draw(7, 20, cursor, 4);
            assert_eq!(drawn.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
            drawn.into_iter().for_each(|task| tried[task] += 1);
        }
        let (half, always) = (tried[..10].iter().sum::<i32>(), tried[10..].iter().sum::<i32>());
        assert!(half > 6 * always && tried.iter().all(|count| *count > 0), "{tried:?}");
        assert_eq!(rates.draw(7, 20, 5, 4), rates.draw(7, 20, 5, 4));
        assert_ne!(rates.draw(7, 20, 5, 4), rates.draw(8, 20, 5, 4));
        assert_eq!(rates.draw(7, 2, 5, 5).len(), 5);
    }
}
