//! How far the policy that trains has moved from the policy that sampled.

use fulgurite_types::{Datum, LossInputs};

use crate::error::PolicyDataError;

/// The name that [`PolicyMetrics::greatest_logprob_difference`] is logged by.
pub(crate) const GREATEST_LOGPROB_DIFFERENCE: &str = "optim/logprob_difference_max";

/// A trained target (mask above 0), as two policies saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrainedTarget {
    /// Index among the datum's targets.
    pub target: usize,
    /// Logprob under the policy that sampled the token.
    pub sampler_logprob: f32,
    /// Logprob under the other policy.
    pub logprob: f32,
}

/// The trained targets of each datum, in order; `logprobs` has one list per datum with one entry per target.
pub(crate) fn trained_targets(
    data: &[Datum],
    logprobs: &[Vec<f32>],
) -> Result<Vec<Vec<TrainedTarget>>, PolicyDataError> {
    if data.len() != logprobs.len() {
        return Err(PolicyDataError::DatumCount { data: data.len(), logprobs: logprobs.len() });
    }
    data.iter().zip(logprobs).enumerate().map(|(index, (datum, logprobs))| of_datum(index, datum, logprobs)).collect()
}

fn of_datum(datum: usize, row: &Datum, logprobs: &[f32]) -> Result<Vec<TrainedTarget>, PolicyDataError> {
    let LossInputs::Policy { logprobs: sampler_logprobs, mask, .. } = &row.loss_inputs else {
        return Err(PolicyDataError::Supervised { datum });
    };
    if mask.len() != logprobs.len() {
        return Err(PolicyDataError::LogprobCount { datum, targets: mask.len(), logprobs: logprobs.len() });
    }
    let mut trained = Vec::new();
    for (target, ((mask, sampler_logprob), logprob)) in mask.iter().zip(sampler_logprobs).zip(logprobs).enumerate() {
        if *mask > 0.0 {
            if !(sampler_logprob.is_finite() && logprob.is_finite()) {
                return Err(PolicyDataError::NotFinite { datum, target });
            }
            trained.push(TrainedTarget { target, sampler_logprob: *sampler_logprob, logprob: *logprob });
        }
    }
    Ok(trained)
}

/// Sampler against trainer over the trained targets of a batch. `s` is a target's logprob under the sampler, `t` under
/// the weights that train, before their update; `r = exp(t - s)` is the importance ratio; `N` counts the targets.
/// Everything is accumulated in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyMetrics {
    /// `N`.
    pub trained_tokens: usize,
    /// `sum(s - t) / N`: the unbiased estimate of KL(sampler, trainer); can be negative.
    pub kl_sample_train_v1: f64,
    /// `sum((s - t)^2) / (2 N)`: the biased estimate that cannot be negative.
    pub kl_sample_train_v2: f64,
    /// `-sum(s) / N`: an estimate of the sampler's entropy per token, in nats.
    pub entropy: f64,
    /// `max |s - t|`.
    pub greatest_logprob_difference: f64,
    /// `max r`.
    pub greatest_ratio: f64,
    /// `sum(r)^2 / (N sum(r^2))` (Kish's effective sample size as a share of `N`): 1 on policy, towards `1 / N` as a
    /// single token takes over.
    pub effective_sample_fraction: f64,
}

impl PolicyMetrics {
    /// Every number under the name that it is logged by; the first three names are tinker-cookbook's.
    pub fn entries(&self) -> [(&'static str, f64); 7] {
        [
            ("optim/kl_sample_train_v1", self.kl_sample_train_v1),
            ("optim/kl_sample_train_v2", self.kl_sample_train_v2),
            ("optim/entropy", self.entropy),
            (GREATEST_LOGPROB_DIFFERENCE, self.greatest_logprob_difference),
            ("optim/ratio_max", self.greatest_ratio),
            ("optim/effective_sample_fraction", self.effective_sample_fraction),
            ("optim/trained_tokens", self.trained_tokens as f64),
        ]
    }
}

/// Compares the sampler's logprobs in `data` with `training_logprobs` (one list per datum, one entry per target).
/// `None` if no target is trained.
pub fn policy_metrics(
    data: &[Datum],
    training_logprobs: &[Vec<f32>],
) -> Result<Option<PolicyMetrics>, PolicyDataError> {
    policy_metrics_of([(data, training_logprobs)])
}

/// As [`policy_metrics`], of several passes together.
pub(crate) fn policy_metrics_of<'p>(
    passes: impl IntoIterator<Item = (&'p [Datum], &'p [Vec<f32>])>,
) -> Result<Option<PolicyMetrics>, PolicyDataError> {
    let mut targets = Vec::new();
    for (data, logprobs) in passes {
        targets.extend(trained_targets(data, logprobs)?.into_iter().flatten());
    }
    Ok(policy_metrics_of_targets(&targets))
}

/// As [`policy_metrics`], of some trained targets.
pub(super) fn policy_metrics_of_targets(targets: &[TrainedTarget]) -> Option<PolicyMetrics> {
    if targets.is_empty() {
        return None;
    }
    let count = targets.len() as f64;
    let differences: Vec<f64> = targets.iter().map(|t| f64::from(t.sampler_logprob) - f64::from(t.logprob)).collect();
    let ratios: Vec<f64> = differences.iter().map(|difference| (-difference).exp()).collect();
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let sum_of_squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    Some(PolicyMetrics {
        trained_tokens: targets.len(),
        kl_sample_train_v1: sum(&differences) / count,
        kl_sample_train_v2: sum_of_squares(&differences) / (2.0 * count),
        entropy: -targets.iter().map(|target| f64::from(target.sampler_logprob)).sum::<f64>() / count,
        greatest_logprob_difference: differences
            .iter()
            .fold(0.0, |greatest, difference| greatest.max(difference.abs())),
        greatest_ratio: ratios.iter().copied().fold(0.0, f64::max),
        effective_sample_fraction: effective_sample_fraction(&ratios),
    })
}

/// Scaled by the greatest ratio first, so that squares of huge ratios do not overflow.
fn effective_sample_fraction(ratios: &[f64]) -> f64 {
    let greatest = ratios.iter().copied().fold(0.0, f64::max);
    let (sum, squares) = ratios.iter().fold((0.0, 0.0), |(sum, squares), ratio| {
        let scaled = ratio / greatest;
        (sum + scaled, squares + scaled * scaled)
    });
    sum * sum / (ratios.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;
    use proptest::prelude::*;

    use super::*;
    use crate::objectives::policy::vectors::{floats, vectors};

    fn datum(logprobs: Vec<f32>, mask: Vec<f32>) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1; mask.len()])],
            target_tokens: vec![1; mask.len()],
            loss_inputs: LossInputs::Policy { logprobs, advantages: vec![0.0; mask.len()], mask },
        }
    }

    fn close(actual: f64, expected: f64) -> bool {
        (actual - expected).abs() <= 1e-6 * expected.abs()
    }

    #[test]
    fn the_cookbooks_batch() {
        let file = vectors("rl_batch_2x3.json");
        let data: Vec<Datum> = file["datums"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| datum(floats(&row["logprobs"]["data"]), floats(&row["mask"]["data"])))
            .collect();
        let training: Vec<Vec<f32>> = file["training_logprobs"].as_array().unwrap().iter().map(floats).collect();
        let metrics = policy_metrics(&data, &training).unwrap().unwrap();
        assert_eq!(metrics.trained_tokens, 21);
        let entries = metrics.entries();
        let theirs = file["kl_sample_train"].as_object().unwrap();
        assert_eq!(theirs.len(), 3);
        for (name, expected) in theirs {
            let (_, actual) = entries.iter().find(|(entry, _)| entry == name).unwrap();
            // Theirs accumulates in 32 bits.
            assert!(close(*actual, expected.as_f64().unwrap()), "{name}: {actual} and {expected}");
        }
    }

    #[test]
    fn ratio_statistics_by_hand() {
        let twice = std::f32::consts::LN_2;
        let data = [datum(vec![-1.0, 0.0, -1.0], vec![1.0, 0.0, 1.0]), datum(vec![-2.0], vec![1.0])];
        let metrics = policy_metrics(&data, &[vec![-1.0 + twice, -9.0, -1.0], vec![-2.0]]).unwrap().unwrap();
        // Ratios 2, 1, 1.
        assert!(close(metrics.greatest_ratio, 2.0));
        assert!(close(metrics.greatest_logprob_difference, f64::from(twice)));
        assert!(close(metrics.effective_sample_fraction, 16.0 / (3.0 * 6.0)));
        assert!(close(metrics.kl_sample_train_v1, f64::from(-twice) / 3.0));
        assert!(close(metrics.kl_sample_train_v2, f64::from(twice).powi(2) / 6.0));
        assert!(close(metrics.entropy, 4.0 / 3.0));
    }

    #[test]
    fn on_policy_everything_is_exact() {
        let metrics = policy_metrics(&[datum(vec![-1.5, -0.5], vec![1.0, 1.0])], &[vec![-1.5, -0.5]]).unwrap().unwrap();
        assert_eq!(
            metrics,
            PolicyMetrics {
                trained_tokens: 2,
                kl_sample_train_v1: 0.0,
                kl_sample_train_v2: 0.0,
                entropy: 1.0,
                greatest_logprob_difference: 0.0,
                greatest_ratio: 1.0,
                effective_sample_fraction: 1.0,
            }
        );
    }

    #[test]
    fn nothing_trained_is_nothing_measured() {
        assert_eq!(policy_metrics(&[datum(vec![0.0], vec![0.0])], &[vec![-1.0]]), Ok(None));
        assert_eq!(policy_metrics(&[], &[]), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let data = [datum(vec![-1.0, -1.0], vec![0.0, 1.0])];
        let error = |logprobs: &[Vec<f32>]| policy_metrics(&data, logprobs).unwrap_err();
        assert_eq!(error(&[]), PolicyDataError::DatumCount { data: 1, logprobs: 0 });
        assert_eq!(error(&[vec![-1.0]]), PolicyDataError::LogprobCount { datum: 0, targets: 2, logprobs: 1 });
        assert_eq!(error(&[vec![-1.0, f32::NAN]]), PolicyDataError::NotFinite { datum: 0, target: 1 });
        // Outside the mask nobody looks.
        assert!(policy_metrics(&data, &[vec![f32::NAN, -1.0]]).is_ok());
        let supervised = Datum { loss_inputs: LossInputs::Supervised { weights: vec![1.0; 2] }, ..data[0].clone() };
        assert_eq!(policy_metrics(&[supervised], &[vec![-1.0; 2]]), Err(PolicyDataError::Supervised { datum: 0 }));
    }

    proptest! {
        #[test]
        fn the_effective_sample_lies_between_one_token_and_all(
            logprobs in proptest::collection::vec((-30.0..0.0f32, -30.0..0.0f32), 1..20),
        ) {
            let (sampler, trainer): (Vec<f32>, Vec<f32>) = logprobs.into_iter().unzip();
            let count = sampler.len() as f64;
            let data = [datum(sampler.clone(), vec![1.0; sampler.len()])];
            let metrics = policy_metrics(&data, &[trainer]).unwrap().unwrap();
            prop_assert!(metrics.effective_sample_fraction >= 1.0 / count - 1e-9);
            prop_assert!(metrics.effective_sample_fraction <= 1.0 + 1e-9);
            prop_assert!(metrics.kl_sample_train_v2 >= 0.0);
        }
    }
}
