//! What makes the policy that trains differ from the one that sampled, token by token: the age of the weights, an update within
//! the step, or nothing but the arithmetic.

use std::collections::BTreeMap;

use super::super::objective::Pass;
use super::super::trained_rows::CallPlace;
use super::policy_metrics::{PolicyMetrics, TrainedTarget, policy_metrics_of_targets, trained_targets};
use crate::error::PolicyDataError;
use crate::weights::VersionDistances;

/// Why a trained token's logprob is another one than when it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DriftCause {
    /// The weights that train it have sampled it: any difference is one of arithmetic.
    SameWeights,
    /// Weights that updates lie between have sampled it.
    Stale,
    /// The weights that the step begins with have sampled it, and earlier substeps have moved them.
    EarlierSubsteps,
    /// It is not known which weights have sampled it.
    Other,
}

impl DriftCause {
    /// Of a token whose weights are so many updates away from those that train it; `is_moved` says that an optimizer step of
    /// the same update came before.
    fn of(distance: Option<u64>, is_moved: bool) -> Self {
        match distance {
            None => Self::Other,
            Some(0) if is_moved => Self::EarlierSubsteps,
            Some(0) => Self::SameWeights,
            Some(_) => Self::Stale,
        }
    }

    /// What a cause's numbers are logged by.
    fn entries(self, of_cause: &PolicyMetrics) -> [(&'static str, f64); 4] {
        macro_rules! names {
            ($cause:literal) => {
                [
                    concat!("optim/kl_sample_train_v1/", $cause),
                    concat!("optim/kl_sample_train_v2/", $cause),
                    concat!("optim/ratio_max/", $cause),
                    concat!("optim/trained_tokens/", $cause),
                ]
            };
        }
        let [unbiased, squared, ratio, tokens] = match self {
            Self::SameWeights => names!("same_weights"),
            Self::Stale => names!("stale"),
            Self::EarlierSubsteps => names!("earlier_substeps"),
            Self::Other => names!("other"),
        };
        [
            (unbiased, of_cause.kl_sample_train_v1),
            (squared, of_cause.kl_sample_train_v2),
            (ratio, of_cause.greatest_ratio),
            (tokens, of_cause.trained_tokens as f64),
        ]
    }
}

/// Which weights sampled the targets of a step's rows.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// How far the weights of a version are from those that the step begins with.
    distances: VersionDistances,
    /// The calls in each row, in the order in which rows are learnt.
    rows: Vec<Vec<CallPlace>>,
}

impl Origins {
    /// Of an update of weights that versions are so far from, without rows.
    pub(super) fn of_update(distances: VersionDistances) -> Self {
        Self { distances, rows: Vec::new() }
    }

    /// Adds the rows that are learnt next.
    pub(super) fn extend(&mut self, rows: Vec<Vec<CallPlace>>) {
        self.rows.extend(rows);
    }

    /// How far the weights are that sampled a target, where so many rows were learnt; of other rows that is not known.
    fn distance(&self, rows: usize, row: usize, target: usize) -> Option<u64> {
        let calls = self.rows.get(row).filter(|_| rows == self.rows.len())?;
        let version = calls.iter().find_map(|call| call.version_of(target))?;
        self.distances.of_version(version)
    }
}

/// [`PolicyMetrics`]' two estimates, its greatest ratio and its count of tokens, of the tokens of each cause that has any.
/// `is_moved` says of a pass whether an optimizer step of the same update came before it.
///
/// The parts make the whole: with `n_c` tokens of cause `c`, `N = sum(n_c)`, each estimate is `sum(n_c estimate_c) / N`, and the
/// greatest ratio is `max(ratio_c)`.
pub(super) fn metrics_by_cause(
    passes: &[Pass],
    origins: &Origins,
    is_moved: impl Fn(&Pass) -> bool,
) -> Result<Vec<(&'static str, f64)>, PolicyDataError> {
    let mut by_cause: BTreeMap<DriftCause, Vec<TrainedTarget>> = BTreeMap::new();
    let rows = passes.iter().map(|pass| pass.data.len()).sum();
    let mut row = 0;
    for pass in passes {
        let is_moved = is_moved(pass);
        for targets in trained_targets(&pass.data, &pass.logprobs)? {
            for target in targets {
                let cause = DriftCause::of(origins.distance(rows, row, target.target), is_moved);
                by_cause.entry(cause).or_default().push(target);
            }
            row += 1;
        }
    }
    let of_cause = by_cause.into_iter().filter_map(|(cause, targets)| {
        let metrics = policy_metrics_of_targets(&targets)?;
        Some(cause.entries(&metrics))
    });
    Ok(of_cause.flatten().collect())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{Chunk, Datum, LossInputs, WeightsFrom};

    use super::super::policy_metrics::policy_metrics_of;
    use super::*;

    #[test]
    fn a_cause_is_known_by_the_distance_and_by_what_the_step_did_before() {
        use DriftCause::{EarlierSubsteps, Other, SameWeights, Stale};
        for (distance, is_moved, expected) in [
            (Some(0), false, SameWeights),
            (Some(0), true, EarlierSubsteps),
            (Some(1), false, Stale),
            (Some(1), true, Stale),
            (None, false, Other),
            (None, true, Other),
        ] {
            assert_eq!(DriftCause::of(distance, is_moved), expected, "{distance:?} {is_moved}");
        }
    }

    /// One row, whose targets were sampled with a logprob of -1 each.
    fn pass(substep: usize, mask: &[f32], logprobs: &[f32]) -> Pass {
        let row = Datum {
            model_input: vec![Chunk::Tokens(vec![1; mask.len()])],
            target_tokens: vec![1; mask.len()],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-1.0; mask.len()],
                advantages: vec![1.0; mask.len()],
                mask: mask.to_vec(),
            },
        };
        let (data, logprobs) = (vec![row].into(), vec![logprobs.to_vec()]);
        Pass { substep, is_auxiliary: false, data, logprobs, loss_sum: 0.0, entropies: None }
    }

    fn call(first: usize, count: usize, versions: &[(u64, usize)]) -> CallPlace {
        let from = |(version, first_token): &(u64, usize)| WeightsFrom { version: *version, first_token: *first_token };
        CallPlace::new("g", first, count, versions.iter().map(from).collect())
    }

    /// Two calls in the first row, of which the first began under older weights, and one in the second.
    fn example() -> (Vec<Pass>, Origins) {
        let first = pass(0, &[0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[-9.0, -1.5, -0.75, -1.0, -9.0, -1.25, -1.25]);
        let second = pass(1, &[1.0, 1.0], &[-2.0, -0.5]);
        let mut origins = Origins::of_update(VersionDistances::of([(2, 1), (3, 0)]));
        origins.extend(vec![vec![call(1, 3, &[(2, 0), (3, 2)]), call(5, 2, &[(3, 0)])]]);
        origins.extend(vec![vec![call(0, 2, &[(3, 0)])]]);
        (vec![first, second], origins)
    }

    #[test]
    fn each_cause_has_its_numbers_and_none_that_has_no_tokens() {
        let (passes, origins) = example();
        let metrics = metrics_by_cause(&passes, &origins, |pass| pass.substep > 0).unwrap();
        // Sampler less trainer: 0, 0.25 and 0.25 of the same weights, 0.5 and -0.25 of older ones, 1 and -0.5 of those that the
        // first substep moved.
        let expected = [
            ("optim/kl_sample_train_v1/same_weights", 0.5 / 3.0),
            ("optim/kl_sample_train_v2/same_weights", 0.125 / 6.0),
            ("optim/ratio_max/same_weights", 1.0),
            ("optim/trained_tokens/same_weights", 3.0),
            ("optim/kl_sample_train_v1/stale", 0.125),
            ("optim/kl_sample_train_v2/stale", 0.3125 / 4.0),
            ("optim/ratio_max/stale", 0.25f64.exp()),
            ("optim/trained_tokens/stale", 2.0),
            ("optim/kl_sample_train_v1/earlier_substeps", 0.25),
            ("optim/kl_sample_train_v2/earlier_substeps", 1.25 / 4.0),
            ("optim/ratio_max/earlier_substeps", 0.5f64.exp()),
            ("optim/trained_tokens/earlier_substeps", 2.0),
        ];
        assert_eq!(metrics, expected);
        // Parts that share an optimizer step are all learnt by the weights that it begins with.
        let together = metrics_by_cause(&passes, &origins, |_| false).unwrap();
        assert_eq!(together.len(), 8);
        assert!(together.contains(&("optim/trained_tokens/same_weights", 5.0)), "{together:?}");
        assert_eq!(metrics_by_cause(&[pass(0, &[0.0], &[-1.0])], &origins, |_| false), Ok(Vec::new()));
        let other_rows = metrics_by_cause(&passes[..1], &origins, |_| false).unwrap();
        assert_eq!((other_rows.len(), other_rows[3]), (4, ("optim/trained_tokens/other", 5.0)));
    }

    #[test]
    fn the_parts_weighted_by_their_tokens_make_the_whole() {
        let (passes, origins) = example();
        let whole = policy_metrics_of(passes.iter().map(|pass| (&*pass.data, pass.logprobs.as_slice())));
        let whole = whole.unwrap().unwrap();
        let parts = metrics_by_cause(&passes, &origins, |pass| pass.substep > 0).unwrap();
        let of = |name: &str| -> Vec<f64> {
            parts.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, value)| *value).collect()
        };
        let tokens = of("optim/trained_tokens/");
        assert_eq!(tokens.iter().sum::<f64>(), whole.trained_tokens as f64);
        let weighted = |name: &str| {
            let sum: f64 = of(name).iter().zip(&tokens).map(|(value, tokens)| value * tokens).sum();
            sum / whole.trained_tokens as f64
        };
        assert!((weighted("optim/kl_sample_train_v1/") - whole.kl_sample_train_v1).abs() < 1e-12);
        assert!((weighted("optim/kl_sample_train_v2/") - whole.kl_sample_train_v2).abs() < 1e-12);
        assert_eq!(of("optim/ratio_max/").into_iter().fold(0.0, f64::max), whole.greatest_ratio);
    }
}
