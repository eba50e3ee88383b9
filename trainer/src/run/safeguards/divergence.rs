//! Weights that have left all bounds: found before they are published.

use crate::TrainError;

/// Nats a token beyond which no rows are of any model: a guess among a million tokens costs 13.8.
const BEYOND_ALL: f64 = 60.0;
/// How many times the first rows' nats other rows cost of weights that have diverged, and no less than so many nats.
const TIMES_THE_FIRST: f64 = 8.0;
const LEAST: f64 = 20.0;

/// How many times the first sampled tokens' nats others cost of weights that have diverged, and no less than so many nats:
/// a policy that samples at random from a small vocabulary costs no more than the logarithm of its size.
const TIMES_THE_FIRST_SAMPLED: f64 = 5.0;
const LEAST_SAMPLED: f64 = 4.0;

/// The mean negative logprob of all targets of some rows, prompts among them; `None` where there are none.
pub(crate) fn mean_nll<'r>(rows: impl Iterator<Item = &'r [Vec<f32>]>) -> Option<f64> {
    let add = |(sum, count): (f64, u64), logprob: &f32| (sum - f64::from(*logprob), count + 1);
    let (sum, count) = rows.flatten().flatten().fold((0.0, 0), add);
    (count > 0).then(|| sum / count as f64)
}

/// Whether the weights that an update began with still know anything of its rows.
///
/// # Errors
/// [`TrainError::Diverged`] if they do not.
pub(crate) fn check(step: u64, nll: Option<f64>, first: &mut Option<f64>) -> Result<(), TrainError> {
    let Some(nll) = nll else { return Ok(()) };
    let first = *first.get_or_insert(nll);
    let bound = (TIMES_THE_FIRST * first).clamp(LEAST, BEYOND_ALL).max(2.0 * first);
    match nll.is_finite() && nll <= bound {
        true => Ok(()),
        false => Err(TrainError::Diverged { step, nll, first }),
    }
}

/// The same by the tokens that the policy sampled, which also a step without a gradient has.
///
/// # Errors
/// [`TrainError::Diverged`] if the policy says what comes by chance.
pub(crate) fn check_sampled(step: u64, nll: Option<f64>, first: &mut Option<f64>) -> Result<(), TrainError> {
    let Some(nll) = nll else { return Ok(()) };
    let first = *first.get_or_insert(nll);
    if nll.is_finite() && nll <= (TIMES_THE_FIRST_SAMPLED * first).max(LEAST_SAMPLED) {
        Ok(())
    } else {
        Err(TrainError::Diverged { step, nll, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_samples_at_random_ends_a_run_without_a_gradient_too() {
        let mut first = None;
        for nll in [0.2, 1.0, 3.9] {
            check_sampled(0, Some(nll), &mut first).unwrap();
        }
        check_sampled(1, None, &mut first).unwrap();
        let error = check_sampled(2, Some(5.2), &mut first).unwrap_err();
        assert!(matches!(error, TrainError::Diverged { step: 2, .. }), "{error}");
        // Who samples at random to begin with has not diverged.
        check_sampled(0, Some(5.5), &mut None).unwrap();
    }

    #[test]
    fn weights_that_know_nothing_any_more_end_the_run() {
        let mut first = None;
        for nll in [4.0, 5.0, 12.0, 19.0] {
            check(0, Some(nll), &mut first).unwrap();
        }
        for nll in [33.0, 1e5, f64::INFINITY, f64::NAN] {
            let error = check(3, Some(nll), &mut first).unwrap_err();
            assert!(matches!(error, TrainError::Diverged { step: 3, first, .. } if first == 4.0), "{error}");
        }
        check(4, None, &mut first).unwrap();
        // A model that knows nothing of its rows to begin with may be taught them.
        let mut first = None;
        check(0, Some(40.0), &mut first).unwrap();
        check(1, Some(45.0), &mut first).unwrap();
        assert_eq!(mean_nll([vec![vec![-1.0_f32, 0.0], vec![-3.0]]].iter().map(Vec::as_slice)), Some(4.0 / 3.0));
        assert_eq!(mean_nll(std::iter::empty()), None);
    }
}
