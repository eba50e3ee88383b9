use fulgurite_backends::{LossFunction, RatioBounds};
use fulgurite_types::{Datum, LossInputs};

/// The loss of one token as a function of its logprob. With `ratio` is meant `exp(logprob - sampler_logprob)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TokenLoss {
    /// The token takes no part in the loss.
    Nothing,
    /// `-weight * logprob`.
    CrossEntropy { weight: f32 },
    /// `-ratio * advantage`.
    ImportanceSampling { sampled: Sampled },
    /// `-min(ratio * advantage, clip(ratio) * advantage)`.
    Ppo { sampled: Sampled, bounds: RatioBounds },
    /// As PPO's, but no less than the limit allows where the advantage is negative.
    DualClip { sampled: Sampled, bounds: RatioBounds, ratio_limit: f32 },
    /// `-4 / tau * sigmoid(tau * (ratio - 1)) * advantage`.
    Sapo { sampled: Sampled, tau: f32 },
    /// `-clip(ratio) * logprob * advantage`, the ratio taken as a number.
    Cispo { sampled: Sampled, bounds: RatioBounds },
    /// `-(logprob * advantage - beta / 2 * (logprob - sampler_logprob)^2)`.
    Dro { sampled: Sampled, beta: f32 },
    /// As PPO's, of a ratio that all of the datum's logprobs make together: value and slope are known beforehand.
    OfSequence { value: f64, slope: f32 },
}

/// What is known of a sampled token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampled {
    /// Under the weights that sampled it.
    pub(crate) logprob: f32,
    pub(crate) advantage: f32,
}

impl Sampled {
    fn ratio(self, logprob: f32) -> f32 {
        (logprob - self.logprob).exp()
    }
}

fn clip(ratio: f32, bounds: RatioBounds) -> f32 {
    ratio.clamp(bounds.low, bounds.high)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The clipped objective at a ratio, and whether the gradient runs through it.
fn clipped(ratio: f32, advantage: f32, bounds: RatioBounds) -> (f32, bool) {
    let (whole, limited) = (ratio * advantage, clip(ratio, bounds) * advantage);
    (whole.min(limited), whole <= limited)
}

impl TokenLoss {
    /// Its value.
    pub(crate) fn value(&self, logprob: f32) -> f64 {
        match *self {
            TokenLoss::Nothing => 0.0,
            TokenLoss::CrossEntropy { weight } => -f64::from(weight) * f64::from(logprob),
            TokenLoss::ImportanceSampling { sampled } => {
                -f64::from(sampled.ratio(logprob)) * f64::from(sampled.advantage)
            }
            TokenLoss::Ppo { sampled, bounds } => {
                -f64::from(clipped(sampled.ratio(logprob), sampled.advantage, bounds).0)
            }
            TokenLoss::DualClip { sampled, bounds, ratio_limit } => {
                -f64::from(clipped(sampled.ratio(logprob).min(ratio_limit), sampled.advantage, bounds).0)
            }
            TokenLoss::Sapo { sampled, tau } => {
                let gate = sigmoid(tau * (sampled.ratio(logprob) - 1.0));
                -f64::from(4.0 / tau * gate) * f64::from(sampled.advantage)
            }
            TokenLoss::Cispo { sampled, bounds } => {
                let ratio = f64::from(clip(sampled.ratio(logprob), bounds));
                -ratio * f64::from(logprob) * f64::from(sampled.advantage)
            }
            TokenLoss::Dro { sampled, beta } => {
                let distance = f64::from(logprob) - f64::from(sampled.logprob);
                -(f64::from(logprob) * f64::from(sampled.advantage) - f64::from(beta) / 2.0 * distance * distance)
            }
            TokenLoss::OfSequence { value, .. } => value,
        }
    }

    /// Its derivative by the logprob. That of the ratio is the ratio.
    pub(crate) fn slope(&self, logprob: f32) -> f32 {
        match *self {
            TokenLoss::Nothing => 0.0,
            TokenLoss::CrossEntropy { weight } => -weight,
            TokenLoss::ImportanceSampling { sampled } => -sampled.ratio(logprob) * sampled.advantage,
            TokenLoss::Ppo { sampled, bounds } => {
                let ratio = sampled.ratio(logprob);
                match clipped(ratio, sampled.advantage, bounds) {
                    (_, true) => -ratio * sampled.advantage,
                    (_, false) => 0.0,
                }
            }
            TokenLoss::DualClip { sampled, bounds, ratio_limit } => {
                let ratio = sampled.ratio(logprob);
                match clipped(ratio.min(ratio_limit), sampled.advantage, bounds) {
                    (_, true) if ratio <= ratio_limit => -ratio * sampled.advantage,
                    _ => 0.0,
                }
            }
            TokenLoss::Sapo { sampled, tau } => {
                let ratio = sampled.ratio(logprob);
                let gate = sigmoid(tau * (ratio - 1.0));
                -4.0 * gate * (1.0 - gate) * ratio * sampled.advantage
            }
            TokenLoss::Cispo { sampled, bounds } => -clip(sampled.ratio(logprob), bounds) * sampled.advantage,
            TokenLoss::Dro { sampled, beta } => -(sampled.advantage - beta * (logprob - sampled.logprob)),
            TokenLoss::OfSequence { slope, .. } => slope,
        }
    }
}

/// Whether a datum's losses follow from all of its logprobs together, which must be computed first.
pub(crate) fn needs_logprobs(function: LossFunction) -> bool {
    matches!(function, LossFunction::Gspo(_))
}

/// The loss of each target of a datum. A target whose weight or mask is 0 has none, whatever its other numbers are.
/// `logprobs` are those of its targets under the weights that are trained, where the loss needs them.
///
/// Fails with what is wrong if the datum does not carry what the loss needs.
pub(crate) fn token_losses(datum: &Datum, function: LossFunction, logprobs: &[f32]) -> Result<Vec<TokenLoss>, String> {
    let of_token = |sampled: Sampled| match function {
        LossFunction::ImportanceSampling => TokenLoss::ImportanceSampling { sampled },
        LossFunction::Ppo(bounds) => TokenLoss::Ppo { sampled, bounds },
        LossFunction::DualClip { bounds, ratio_limit } => TokenLoss::DualClip { sampled, bounds, ratio_limit },
        LossFunction::Sapo { positive, negative } => {
            TokenLoss::Sapo { sampled, tau: if sampled.advantage > 0.0 { positive } else { negative } }
        }
        LossFunction::Cispo(bounds) => TokenLoss::Cispo { sampled, bounds },
        LossFunction::Dro { beta } => TokenLoss::Dro { sampled, beta },
        // Of a sequence, which is done below.
        LossFunction::Gspo(_) | LossFunction::CrossEntropy => TokenLoss::Nothing,
    };
    match (function, &datum.loss_inputs) {
        (LossFunction::CrossEntropy, LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. }) => {
            Ok(weights
                .iter()
                .map(|&weight| if weight == 0.0 { TokenLoss::Nothing } else { TokenLoss::CrossEntropy { weight } })
                .collect())
        }
        (LossFunction::CrossEntropy, LossInputs::Policy { .. }) => {
            Err("cross entropy needs weights, but the datum carries logprobs, advantages and a mask".into())
        }
        (_, LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. }) => {
            let name = function.name();
            Err(format!("{name} needs logprobs, advantages and a mask, but the datum carries weights"))
        }
        (_, LossInputs::Policy { logprobs: sampler, advantages, mask }) => {
            if let Some(index) = mask.iter().position(|&mask| mask != 0.0 && mask != 1.0) {
                return Err(format!("mask[{index}] is {}, but a mask is 0 or 1", mask[index]));
            }
            let trained = |index: &usize| mask[*index] == 1.0;
            let mut losses = vec![TokenLoss::Nothing; mask.len()];
            if let LossFunction::Gspo(bounds) = function {
                let indices: Vec<usize> = (0..mask.len()).filter(trained).collect();
                let distance = |&index: &usize| f64::from(logprobs[index]) - f64::from(sampler[index]);
                let mean = indices.iter().map(distance).sum::<f64>() / indices.len() as f64;
                let ratio = mean.exp() as f32;
                for index in indices {
                    let (objective, runs_through) = clipped(ratio, advantages[index], bounds);
                    let slope = if runs_through { -ratio * advantages[index] } else { 0.0 };
                    losses[index] = TokenLoss::OfSequence { value: -f64::from(objective), slope };
                }
                return Ok(losses);
            }
            for index in (0..mask.len()).filter(trained) {
                losses[index] = of_token(Sampled { logprob: sampler[index], advantage: advantages[index] });
            }
            Ok(losses)
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;

    const BOUNDS: RatioBounds = RatioBounds { low: 0.8, high: 1.2 };

    fn policy(mask: Vec<f32>) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1, 2])],
            target_tokens: vec![2, 3],
            loss_inputs: LossInputs::Policy { logprobs: vec![-200.0, -1.0], advantages: vec![3.0, 0.5], mask },
        }
    }

    fn sampled(advantage: f32) -> Sampled {
        Sampled { logprob: -1.0, advantage }
    }

    /// Value and slope where the ratio is this.
    fn at(loss: TokenLoss, ratio: f32) -> (f64, f32) {
        let logprob = -1.0 + ratio.ln();
        (loss.value(logprob), loss.slope(logprob))
    }

    fn close(actual: (f64, f32), expected: (f64, f32)) {
        assert!(
            (actual.0 - expected.0).abs() < 1e-5 && (actual.1 - expected.1).abs() < 1e-5,
            "{actual:?} {expected:?}"
        );
    }

    #[test]
    fn cross_entropy_by_hand() {
        let loss = TokenLoss::CrossEntropy { weight: 0.5 };
        assert_eq!((loss.value(-2.0), loss.slope(-2.0)), (1.0, -0.5));
    }

    #[test]
    fn importance_sampling_by_hand() {
        let loss = TokenLoss::ImportanceSampling { sampled: sampled(3.0) };
        assert_eq!((loss.value(-1.0), loss.slope(-1.0)), (-3.0, -3.0));
        close(at(loss, 2.0), (-6.0, -6.0));
    }

    #[test]
    fn ppo_by_hand() {
        let gain = TokenLoss::Ppo { sampled: sampled(3.0), bounds: BOUNDS };
        close(at(gain, 1.1), (-3.3, -3.3));
        close(at(gain, 2.0), (-3.6, 0.0));
        close(at(gain, 0.5), (-1.5, -1.5));
        let pain = TokenLoss::Ppo { sampled: sampled(-3.0), bounds: BOUNDS };
        close(at(pain, 2.0), (6.0, 6.0));
        close(at(pain, 0.5), (2.4, 0.0));
    }

    #[test]
    fn cispo_by_hand() {
        let loss = TokenLoss::Cispo { sampled: sampled(2.0), bounds: RatioBounds { low: 0.0, high: 4.0 } };
        let logprob = |ratio: f32| f64::from(-1.0 + ratio.ln());
        close(at(loss, 2.0), (-4.0 * logprob(2.0), -4.0));
        close(at(loss, 8.0), (-8.0 * logprob(8.0), -8.0));
    }

    #[test]
    fn dro_by_hand() {
        let loss = TokenLoss::Dro { sampled: sampled(2.0), beta: 0.5 };
        assert_eq!((loss.value(-3.0), loss.slope(-3.0)), (7.0, -3.0));
    }

    #[test]
    fn gspo_by_hand() {
        let datum = Datum {
            model_input: vec![Chunk::Tokens(vec![1, 2, 3])],
            target_tokens: vec![2, 3, 4],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-1.0, -2.0, -9.0],
                advantages: vec![3.0, -1.0, 5.0],
                mask: vec![1.0, 1.0, 0.0],
            },
        };
        // Distances 0.3 and 0.1: their mean is 0.2.
        let losses = token_losses(&datum, LossFunction::Gspo(BOUNDS), &[-0.7, -1.9, -1.0]).unwrap();
        let ratio = 0.2_f32.exp();
        close((losses[0].value(0.0), losses[0].slope(0.0)), (-3.6, 0.0));
        close((losses[1].value(0.0), losses[1].slope(0.0)), (f64::from(ratio), ratio));
        assert_eq!(losses[2], TokenLoss::Nothing);
    }

    #[test]
    fn a_slope_is_the_values_derivative() {
        for advantage in [2.0, -2.0] {
            let sampled = sampled(advantage);
            for loss in [
                TokenLoss::ImportanceSampling { sampled },
                TokenLoss::Ppo { sampled, bounds: BOUNDS },
                TokenLoss::Dro { sampled, beta: 0.5 },
                TokenLoss::DualClip { sampled, bounds: BOUNDS, ratio_limit: 1.5 },
                TokenLoss::Sapo { sampled, tau: 1.05 },
            ] {
                for ratio in [0.5_f32, 0.9, 1.1, 2.0] {
                    let (logprob, step) = (-1.0 + ratio.ln(), 1.0 / 256.0);
                    let slope = (loss.value(logprob + step) - loss.value(logprob - step)) / f64::from(2.0 * step);
                    assert!((slope - f64::from(loss.slope(logprob))).abs() < 1e-3, "{loss:?} at {ratio}: {slope}");
                }
            }
        }
    }

    #[test]
    fn a_masked_target_has_no_loss_even_where_the_ratio_would_overflow() {
        let losses = token_losses(&policy(vec![0.0, 1.0]), LossFunction::ImportanceSampling, &[]).unwrap();
        assert_eq!(losses[0], TokenLoss::Nothing);
        assert_eq!(losses[1], TokenLoss::ImportanceSampling { sampled: Sampled { logprob: -1.0, advantage: 0.5 } });
    }

    #[test]
    fn a_mask_between_0_and_1_and_a_datum_for_another_loss_are_refused() {
        let error = token_losses(&policy(vec![0.0, 0.5]), LossFunction::ImportanceSampling, &[]).unwrap_err();
        assert_eq!(error, "mask[1] is 0.5, but a mask is 0 or 1");
        assert!(token_losses(&policy(vec![0.0, 1.0]), LossFunction::CrossEntropy, &[]).is_err());
    }
}
