//! Coefficients that follow what an update measured.

use crate::options::{EntropyTarget, KlTarget};

/// The most that a relative error of the distance counts.
const GREATEST_ERROR: f64 = 0.2;

/// The coefficient after an update of so many rollouts whose mean distance was `distance`: it grows by the relative error from the
/// target, which counts as 0.2 at most either way, times the share that the rollouts are of the horizon (Ziegler et al. 2019,
/// section 2.2; `AdaptiveKLController` of TRL up to 0.11 and of verl). A distance that is no number changes nothing.
pub(crate) fn adapted_kl(coefficient: f64, distance: f64, rollouts: usize, to: KlTarget) -> f64 {
    if !distance.is_finite() {
        return coefficient;
    }
    let error = (distance / to.target - 1.0).clamp(-GREATEST_ERROR, GREATEST_ERROR);
    coefficient * (1.0 + error * rollouts as f64 / to.horizon)
}

/// What the entropy is worth in an update, and what the next one begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EntropyCoefficient {
    pub(crate) now: f64,
    pub(crate) next: f64,
}

/// Of an update whose entropy is `entropy` before it: `c` where that is not above the target, and else 0; and `c` grows by a step
/// where it is below the target, and falls by one where it is above (Skywork-OR1: He et al. 2025). `c` stays within 0 and the
/// greatest. An entropy that is no number changes nothing.
pub(crate) fn adapted_entropy(c: f64, entropy: f64, to: EntropyTarget) -> EntropyCoefficient {
    if !entropy.is_finite() {
        return EntropyCoefficient { now: c, next: c };
    }
    let moved = match entropy.total_cmp(&to.target) {
        std::cmp::Ordering::Less => c + to.step,
        std::cmp::Ordering::Equal => c,
        std::cmp::Ordering::Greater => c - to.step,
    };
    let next = moved.clamp(0.0, to.greatest);
    EntropyCoefficient { now: if entropy <= to.target { c } else { 0.0 }, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objectives::policy::vectors::{close, doubles, vectors};

    #[test]
    fn the_coefficients_of_the_kl_controller_of_trl_and_verl() {
        let file = vectors("trl/adaptive_kl.json");
        let cases = file["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let to = KlTarget { target: number("target"), horizon: number("horizon") };
            let mut coefficient = number("init_kl_coef");
            let (distances, rollouts) = (doubles(&case["current"]), case["n_steps"].as_u64().unwrap() as usize);
            for (distance, expected) in distances.iter().zip(doubles(&case["value"])) {
                coefficient = adapted_kl(coefficient, *distance, rollouts, to);
                close(coefficient, expected);
            }
        }
        let to = KlTarget { target: 6.0, horizon: 10_000.0 };
        assert_eq!(adapted_kl(0.2, f64::NAN, 8, to), 0.2);
    }

    #[test]
    fn a_far_policy_is_pulled_back_by_a_fifth_of_its_share_at_most() {
        let to = KlTarget { target: 0.1, horizon: 100.0 };
        close(adapted_kl(1.0, 0.11, 50, to), 1.05);
        close(adapted_kl(1.0, 5.0, 50, to), 1.1);
        close(adapted_kl(1.0, -5.0, 50, to), 0.9);
        assert_eq!(adapted_kl(1.0, 0.1, 50, to), 1.0);
    }

    /// By hand: `c` is 0, 0.5, 1, 1 (at the target), 1 (above: it falls after it), 0.5, and 1.2 is the greatest.
    #[test]
    fn an_entropy_below_its_target_is_paid_more_each_update() {
        let to = EntropyTarget { target: 2.0, step: 0.5, start: 0.0, greatest: 1.2 };
        let mut c = to.start;
        let mut paid = Vec::new();
        for entropy in [1.0, 1.5, 2.0, 2.5, 1.9, 1.0, 1.0, f64::NAN, 3.0, 3.0, 3.0, 3.0] {
            let made = adapted_entropy(c, entropy, to);
            paid.push((made.now, made.next));
            c = made.next;
        }
        let expected = [
            (0.0, 0.5),
            (0.5, 1.0),
            (1.0, 1.0),
            (0.0, 0.5),
            (0.5, 1.0),
            (1.0, 1.2),
            (1.2, 1.2),
            (1.2, 1.2),
            (0.0, 0.7),
            (0.0, 0.2),
            (0.0, 0.0),
            (0.0, 0.0),
        ];
        for ((now, next), (expected_now, expected_next)) in paid.into_iter().zip(expected) {
            close(now, expected_now);
            close(next, expected_next);
        }
    }
}
