use fulgurite_backends::{Datum, LossFunction, LossInputs};

/// The loss of one token as a function of its logprob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TokenLoss {
    /// The token takes no part in the loss.
    Nothing,
    /// `-weight * logprob`.
    CrossEntropy { weight: f32 },
    /// `-exp(logprob - sampler_logprob) * advantage`.
    ImportanceSampling { sampler_logprob: f32, advantage: f32 },
}

impl TokenLoss {
    /// Its value.
    pub(crate) fn value(&self, logprob: f32) -> f64 {
        match *self {
            TokenLoss::Nothing => 0.0,
            TokenLoss::CrossEntropy { weight } => -f64::from(weight) * f64::from(logprob),
            TokenLoss::ImportanceSampling { sampler_logprob, advantage } => {
                -f64::from((logprob - sampler_logprob).exp()) * f64::from(advantage)
            }
        }
    }

    /// Its derivative by the logprob. That of the ratio is the ratio.
    pub(crate) fn slope(&self, logprob: f32) -> f32 {
        match *self {
            TokenLoss::Nothing => 0.0,
            TokenLoss::CrossEntropy { weight } => -weight,
            TokenLoss::ImportanceSampling { sampler_logprob, advantage } => {
                -(logprob - sampler_logprob).exp() * advantage
            }
        }
    }
}

/// The loss of each target of a datum. A target whose weight or mask is 0 has none, whatever its other numbers are.
///
/// Fails with what is wrong if the datum does not carry what the loss needs.
pub(crate) fn token_losses(datum: &Datum, function: LossFunction) -> Result<Vec<TokenLoss>, String> {
    match (function, &datum.loss_inputs) {
        (LossFunction::CrossEntropy, LossInputs::Supervised { weights }) => Ok(weights
            .iter()
            .map(|&weight| if weight == 0.0 { TokenLoss::Nothing } else { TokenLoss::CrossEntropy { weight } })
            .collect()),
        (LossFunction::ImportanceSampling, LossInputs::Policy { logprobs, advantages, mask }) => (0..mask.len())
            .map(|index| match mask[index] {
                0.0 => Ok(TokenLoss::Nothing),
                1.0 => {
                    Ok(TokenLoss::ImportanceSampling { sampler_logprob: logprobs[index], advantage: advantages[index] })
                }
                value => Err(format!("mask[{index}] is {value}, but a mask is 0 or 1")),
            })
            .collect(),
        (LossFunction::CrossEntropy, LossInputs::Policy { .. }) => {
            Err("cross entropy needs weights, but the datum carries logprobs, advantages and a mask".into())
        }
        (LossFunction::ImportanceSampling, LossInputs::Supervised { .. }) => {
            Err("importance sampling needs logprobs, advantages and a mask, but the datum carries weights".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_backends::Chunk;

    fn policy(mask: Vec<f32>) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1, 2])],
            target_tokens: vec![2, 3],
            loss_inputs: LossInputs::Policy { logprobs: vec![-200.0, -1.0], advantages: vec![3.0, 0.5], mask },
        }
    }

    #[test]
    fn cross_entropy_by_hand() {
        let loss = TokenLoss::CrossEntropy { weight: 0.5 };
        assert_eq!(loss.value(-2.0), 1.0);
        assert_eq!(loss.slope(-2.0), -0.5);
    }

    #[test]
    fn importance_sampling_by_hand() {
        let loss = TokenLoss::ImportanceSampling { sampler_logprob: -1.0, advantage: 3.0 };
        assert_eq!(loss.value(-1.0), -3.0);
        assert_eq!(loss.slope(-1.0), -3.0);
        let ratio = 2.0_f32.ln();
        assert!((loss.value(-1.0 + ratio) + 6.0).abs() < 1e-5);
        assert!((loss.slope(-1.0 + ratio) + 6.0).abs() < 1e-5);
    }

    #[test]
    fn a_masked_target_has_no_loss_even_where_the_ratio_would_overflow() {
        let losses = token_losses(&policy(vec![0.0, 1.0]), LossFunction::ImportanceSampling).unwrap();
        assert_eq!(losses[0], TokenLoss::Nothing);
        assert_eq!(losses[1], TokenLoss::ImportanceSampling { sampler_logprob: -1.0, advantage: 0.5 });
    }

    #[test]
    fn a_mask_between_0_and_1_and_a_datum_for_another_loss_are_refused() {
        let error = token_losses(&policy(vec![0.0, 0.5]), LossFunction::ImportanceSampling).unwrap_err();
        assert_eq!(error, "mask[1] is 0.5, but a mask is 0 or 1");
        assert!(token_losses(&policy(vec![0.0, 1.0]), LossFunction::CrossEntropy).is_err());
    }
}
