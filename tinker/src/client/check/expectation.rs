//! What must come of a pass over the known batch, by the formulas of the API.

use fulgurite_backends::{LossFunction, RatioBounds};
use fulgurite_types::{Datum, LossInputs};

/// The greatest mean distance between logprobs of one model that two programs compute, in bfloat16.
const CLOSE_LOGPROBS: f64 = 0.05;
/// The greatest distance of a loss from its formula, as a share of its terms' sizes.
const CLOSE_LOSS: f64 = 0.01;

/// Mean distance of two lists of logprobs, which are equally long.
pub(super) fn mean_difference(ones: &[Vec<f32>], others: &[Vec<f32>]) -> f64 {
    let pairs = ones.iter().flatten().zip(others.iter().flatten());
    let distances: Vec<f64> = pairs.map(|(one, other)| f64::from((one - other).abs())).collect();
    distances.iter().sum::<f64>() / distances.len().max(1) as f64
}

/// Whether logprobs so far apart on average may be of one model. What is no number is not.
pub(super) fn is_close(difference: f64) -> bool {
    difference <= CLOSE_LOGPROBS
}

/// How far an update moved each logprob.
pub(super) fn changes(before: &[Vec<f32>], after: &[Vec<f32>]) -> Vec<f64> {
    let pairs = before.iter().flatten().zip(after.iter().flatten());
    pairs.map(|(before, after)| f64::from(*after) - f64::from(*before)).collect()
}

/// The greatest size of a number.
pub(super) fn greatest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |greatest: f64, value| greatest.max(value.abs()))
}

/// The cosine between two lists of numbers; none where one of them is zero.
pub(super) fn cosine(ones: &[f64], others: &[f64]) -> Option<f64> {
    let dot = |ones: &[f64], others: &[f64]| ones.iter().zip(others).map(|(one, other)| one * other).sum::<f64>();
    let size = (dot(ones, ones) * dot(others, others)).sqrt();
    (size > 0.0).then(|| dot(ones, others) / size)
}

/// How far numbers go along others, as a share of those; none where the others are zero.
pub(super) fn share_along(numbers: &[f64], others: &[f64]) -> Option<f64> {
    let size: f64 = others.iter().map(|other| other * other).sum();
    let dot: f64 = numbers.iter().zip(others).map(|(number, other)| number * other).sum();
    (size > 0.0).then(|| dot / size)
}

/// Whether a loss is what its formula gives. `slopes` say how large its terms are.
pub(super) fn is_close_loss(loss: f64, expected: f64, slopes: &[f64]) -> bool {
    let size: f64 = slopes.iter().map(|slope| slope.abs()).sum();
    (loss - expected).abs() <= CLOSE_LOSS * (size + expected.abs())
}

/// What each target's logprob adds to the loss where it grows, with its sign turned: an update that learns moves logprobs this
/// way.
pub(super) fn slopes(data: &[Datum], logprobs: &[Vec<f32>], loss: LossFunction) -> Vec<f64> {
    data.iter().zip(logprobs).flat_map(|(datum, logprobs)| slopes_of_datum(datum, logprobs, loss)).collect()
}

fn slopes_of_datum(datum: &Datum, logprobs: &[f32], loss: LossFunction) -> Vec<f64> {
    let (sampled, advantages) = match &datum.loss_inputs {
        LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. } => {
            return weights.iter().map(|&weight| f64::from(weight)).collect();
        }
        LossInputs::Policy { logprobs, advantages, .. } => (logprobs, advantages),
    };
    let distances: Vec<f64> =
        logprobs.iter().zip(sampled).map(|(own, sampled)| f64::from(*own) - f64::from(*sampled)).collect();
    let of_all = (distances.iter().sum::<f64>() / distances.len().max(1) as f64).exp();
    let unclipped = |ratio: f64, advantage: f64, bounds: RatioBounds| {
        let clipped = ratio.clamp(bounds.low.into(), bounds.high.into());
        if ratio * advantage <= clipped * advantage { ratio * advantage } else { 0.0 }
    };
    let slope = |(&distance, &advantage): (&f64, &f32)| {
        let (ratio, advantage) = (distance.exp(), f64::from(advantage));
        match loss {
            LossFunction::CrossEntropy => advantage,
            LossFunction::ImportanceSampling => ratio * advantage,
            LossFunction::Ppo(bounds) => unclipped(ratio, advantage, bounds),
            LossFunction::Gspo(bounds) => unclipped(of_all, advantage, bounds),
            LossFunction::DualClip { bounds, ratio_limit } => {
                let is_within = advantage > 0.0 || ratio <= f64::from(ratio_limit);
                if is_within { unclipped(ratio, advantage, bounds) } else { 0.0 }
            }
            LossFunction::Sapo { positive, negative } => {
                let tau = f64::from(if advantage > 0.0 { positive } else { negative });
                let gate = 1.0 / (1.0 + (-tau * (ratio - 1.0)).exp());
                4.0 * gate * (1.0 - gate) * ratio * advantage
            }
            LossFunction::Cispo(bounds) => ratio.clamp(bounds.low.into(), bounds.high.into()) * advantage,
            LossFunction::Dro { beta } => advantage - f64::from(beta) * distance,
        }
    };
    distances.iter().zip(advantages).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::check::batch;
    use crate::client::datums::loss_of;

    #[test]
    fn slopes_are_those_of_the_losses() {
        let logprobs: Vec<Vec<f32>> =
            (0..4).map(|row| (0..12).map(|at| -2.0 - (row + at) as f32 / 8.0).collect()).collect();
        let bounds = RatioBounds { low: 0.8, high: 1.2 };
        for loss in [
            LossFunction::ImportanceSampling,
            LossFunction::Ppo(bounds),
            LossFunction::DualClip { bounds, ratio_limit: 1.5 },
            LossFunction::Sapo { positive: 1.0, negative: 1.05 },
            LossFunction::Dro { beta: 0.5 },
            LossFunction::CrossEntropy,
        ] {
            let data = match loss {
                LossFunction::CrossEntropy => batch::supervised(&[1.0, -0.5]),
                _ => batch::policy(&logprobs),
            };
            let slopes = slopes(&data, &logprobs, loss);
            for (place, slope) in slopes.iter().enumerate() {
                let moved = |by: f32| {
                    let mut logprobs = logprobs.clone();
                    logprobs[place / 12][place % 12] += by;
                    loss_of(&data, &logprobs, loss)
                };
                let measured = (moved(-0.001) - moved(0.001)) / 0.002;
                assert!((measured - slope).abs() < 0.01, "{loss:?} {place}: {measured} {slope}");
            }
        }
    }

    #[test]
    fn a_share_is_along_the_others_alone() {
        assert_eq!(share_along(&[0.5, 7.0], &[2.0, 0.0]), Some(0.25));
        assert_eq!(share_along(&[0.5], &[0.0]), None);
    }

    #[test]
    fn a_loss_may_be_off_by_its_rounding_and_no_more() {
        assert!(is_close_loss(10.01, 10.0, &[1.0]) && !is_close_loss(11.0, 10.0, &[1.0]));
        assert!(is_close_loss(0.005, 0.0, &[0.5, -0.5]) && !is_close_loss(f64::NAN, 0.0, &[1.0]));
    }
}
