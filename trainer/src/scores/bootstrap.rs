//! How sure a mean over tasks is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

/// Sets of tasks that are drawn.
const RESAMPLES: usize = 10_000;
/// The same numbers have the same interval, whoever asks.
const SEED: u64 = 1;

/// An interval that holds 95 of 100 means of tasks drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The interval of the mean of values, one a task, by percentiles of 10,000 bootstrap resamples (Efron 1979). Of
/// differences of two evaluations of the same tasks it is the paired one. `None` for fewer than two values.
pub fn bootstrap_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut draw = || {
        let sum: f64 = (0..values.len()).map(|_| values[(random.next_u64() % values.len() as u64) as usize]).sum();
        sum / values.len() as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    means.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Interval { low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_wide_as_the_normal_approximation_says_and_always_the_same() {
        // 200 coins, half of them heads: the mean's deviation is 0.5 / sqrt(200).
        let values: Vec<f64> = (0..200).map(|n| f64::from(n % 2)).collect();
        let interval = bootstrap_interval(&values).unwrap();
        let expected = 1.96 * 0.5 / 200f64.sqrt();
        assert!((interval.low - (0.5 - expected)).abs() < 0.01 && (interval.high - (0.5 + expected)).abs() < 0.01);
        assert_eq!(bootstrap_interval(&values), Some(interval));
    }

    #[test]
    fn equal_values_have_no_width_and_one_value_no_interval() {
        assert_eq!(bootstrap_interval(&[0.5; 7]), Some(Interval { low: 0.5, high: 0.5 }));
        assert_eq!(bootstrap_interval(&[0.5]), None);
        assert_eq!(bootstrap_interval(&[]), None);
    }
}
