//! Leaves out tokens that the weights which are trained find much more, or much less, likely than those that sampled.

use fulgurite_backends::RatioBounds;
use fulgurite_types::{Datum, LossInputs};

use super::policy_metrics::trained_targets;
use crate::error::PolicyDataError;

/// What a mask left out.
#[derive(Debug, PartialEq)]
pub(crate) struct Masked {
    /// Of all trained targets, or `None` if no target is trained.
    pub(crate) share: Option<f64>,
    /// The targets, one list per datum.
    pub(crate) targets: Vec<Vec<usize>>,
}

/// Sets the advantage of every trained target to 0 whose ratio `exp(logprob - sampler logprob)` is outside `bounds`
/// (masked importance sampling), and gives which they are. `logprobs` are those under the weights before the step, one list
/// per datum with one entry per target. On error nothing changes.
pub(crate) fn mask_by_ratio(
    data: &mut [Datum],
    logprobs: &[Vec<f32>],
    bounds: RatioBounds,
) -> Result<Masked, PolicyDataError> {
    let targets = trained_targets(data, logprobs)?;
    let count = targets.iter().map(Vec::len).sum::<usize>();
    let mut masked: Vec<Vec<usize>> = vec![Vec::new(); data.len()];
    for ((datum, targets), masked) in data.iter_mut().zip(targets).zip(&mut masked) {
        let LossInputs::Policy { advantages, .. } = &mut datum.loss_inputs else { continue };
        for target in targets {
            let ratio = (target.logprob - target.sampler_logprob).exp();
            if !(bounds.low..=bounds.high).contains(&ratio) {
                advantages[target.target] = 0.0;
                masked.push(target.target);
            }
        }
    }
    let all = masked.iter().map(Vec::len).sum::<usize>();
    Ok(Masked { share: (count > 0).then(|| all as f64 / count as f64), targets: masked })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;

    #[test]
    fn what_has_moved_too_far_teaches_nothing() {
        let mut data = [Datum {
            model_input: vec![Chunk::Tokens(vec![1; 4])],
            target_tokens: vec![1; 4],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-1.0; 4],
                advantages: vec![3.0, 3.0, 3.0, 0.0],
                mask: vec![1.0, 1.0, 1.0, 0.0],
            },
        }];
        // Ratios of 1, e^-1 and e; the last is no sampled token.
        let logprobs = [vec![-1.0, -2.0, 0.0, -9.0]];
        let bounds = RatioBounds { low: 0.5, high: 2.0 };
        let masked = Masked { share: Some(2.0 / 3.0), targets: vec![vec![1, 2]] };
        assert_eq!(mask_by_ratio(&mut data, &logprobs, bounds), Ok(masked));
        let LossInputs::Policy { advantages, mask, .. } = &data[0].loss_inputs else { unreachable!() };
        assert_eq!((advantages.as_slice(), mask.as_slice()), (&[3.0, 0.0, 0.0, 0.0][..], &[1.0, 1.0, 1.0, 0.0][..]));
        assert_eq!(mask_by_ratio(&mut [], &[], bounds), Ok(Masked { share: None, targets: Vec::new() }));
    }
}
