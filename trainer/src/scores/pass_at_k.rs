//! The chance that one of several samples passes.

/// The chance that one at least of `k` samples passes, estimated without bias from `passed` of `samples` that did:
/// `1 - C(samples - passed, k) / C(samples, k)` (Chen et al. 2021), as a product, so that no binomial overflows. `None`
/// for more samples than there are, and for none.
pub fn pass_at_k(samples: usize, passed: usize, k: usize) -> Option<f64> {
    if k == 0 || k > samples || passed > samples {
        return None;
    }
    let failed = samples - passed;
    if failed < k {
        return Some(1.0);
    }
    let all_fail: f64 = (failed + 1..=samples).map(|n| 1.0 - k as f64 / n as f64).product();
    Some(1.0 - all_fail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn binomial(n: usize, k: usize) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
    }

    #[test]
    fn values_by_hand() {
        for (samples, passed, k, expected) in [
            (4, 0, 1, 0.0),
            (4, 1, 1, 0.25),
            (4, 1, 2, 0.5),
            (4, 2, 2, 1.0 - 1.0 / 6.0),
            (4, 3, 2, 1.0),
            (4, 4, 4, 1.0),
            (10, 3, 5, 1.0 - 21.0 / 252.0),
        ] {
            let found = pass_at_k(samples, passed, k).unwrap();
            assert!((found - expected).abs() < 1e-12, "{samples} {passed} {k}: {found}");
        }
        assert_eq!(pass_at_k(3, 1, 4), None, "three samples do not tell of four");
        assert_eq!(pass_at_k(3, 1, 0), None);
    }

    #[test]
    fn large_numbers_stay_within_bounds() {
        // Both binomials are beyond the range of 64 bits.
        let found = pass_at_k(100_000, 1, 50_000).unwrap();
        assert!((found - 0.5).abs() < 1e-9, "{found}");
    }

    proptest! {
        #[test]
        fn it_is_the_formula_and_the_mean_over_all_choices(samples in 1usize..40, share in 0.0f64..=1.0, of in 0.0f64..1.0) {
            let passed = (samples as f64 * share) as usize;
            let k = 1 + (samples as f64 * of) as usize;
            let k = k.min(samples);
            let failed = samples - passed;
            let expected = if failed < k { 1.0 } else { 1.0 - binomial(failed, k) / binomial(samples, k) };
            prop_assert!((pass_at_k(samples, passed, k).unwrap() - expected).abs() < 1e-9);
            prop_assert!((pass_at_k(samples, passed, 1).unwrap() - passed as f64 / samples as f64).abs() < 1e-12);
        }
    }
}
