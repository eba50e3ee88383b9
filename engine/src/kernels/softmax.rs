use super::{LANES, exp, fold, vectorised};

/// What turns the logits of one position into logprobs at some temperature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSoftmax {
    highest: f32,
    temperature: f32,
    log_sum: f32,
}

impl LogSoftmax {
    /// At temperature 1.
    pub(crate) fn new(logits: &[f32]) -> Self {
        Self::at_temperature(logits, 1.0)
    }

    /// `temperature` is greater than 0.
    pub(crate) fn at_temperature(logits: &[f32], temperature: f32) -> Self {
        let (mut top, mut sum) = (0.0, 0.0);
        vectorised(
            #[inline(always)]
            || {
                top = highest(logits);
                sum = sum_of_exponentials(logits, top, temperature);
            },
        );
        Self { highest: top, temperature, log_sum: sum.ln() }
    }

    /// Whether logprobs are numbers; they are not if a logit is not.
    pub(crate) fn is_finite(&self) -> bool {
        self.highest.is_finite() && self.log_sum.is_finite()
    }

    /// Logprob of the token that has this logit.
    pub(crate) fn logprob(&self, logit: f32) -> f32 {
        (logit - self.highest) / self.temperature - self.log_sum
    }

    /// The distribution's entropy, in nats: to the bit what [`softmax_gradient`] gives.
    pub(crate) fn entropy(&self, logits: &[f32]) -> f32 {
        softmax_gradient(&mut logits.to_vec(), self, 0.0, std::iter::empty())
    }

    /// Writes `e^((logit - highest) / temperature)`, the probabilities up to one common factor.
    pub(crate) fn weigh(&self, logits: &[f32], weights: &mut [f32]) {
        let Self { highest, temperature, .. } = *self;
        vectorised(
            #[inline(always)]
            || {
                let logits = &logits[..weights.len()];
                for token in 0..weights.len() {
                    weights[token] = exp((logits[token] - highest) / temperature);
                }
            },
        );
    }
}

/// Turns logits into the sum over targets of `slope * (one_hot(target) - probabilities)`: the loss's gradient for them, if each
/// `slope` is its derivative by that target's logprob over the temperature, and `total` their sum. Gives the distribution's
/// entropy, in nats.
pub(crate) fn softmax_gradient(
    logits: &mut [f32],
    softmax: &LogSoftmax,
    total: f32,
    targets: impl Iterator<Item = (usize, f32)>,
) -> f32 {
    let LogSoftmax { highest, temperature, log_sum } = *softmax;
    let mut entropy = 0.0;
    vectorised(
        #[inline(always)]
        || {
            let (blocks, rest) = logits.as_chunks_mut::<LANES>();
            let mut lanes = [0.0; LANES];
            for block in 0..blocks.len() {
                for lane in 0..LANES {
                    let logprob = (blocks[block][lane] - highest) / temperature - log_sum;
                    let probability = exp(logprob);
                    lanes[lane] -= surprise(probability, logprob);
                    blocks[block][lane] = -total * probability;
                }
            }
            for lane in 0..rest.len() {
                let logprob = (rest[lane] - highest) / temperature - log_sum;
                let probability = exp(logprob);
                lanes[lane] -= surprise(probability, logprob);
                rest[lane] = -total * probability;
            }
            entropy = fold(lanes);
        },
    );
    for (target, slope) in targets {
        logits[target] += slope;
    }
    entropy
}

/// Adds to a gradient by the logits that of `-weight * entropy`, which is `weight * p * (log p + entropy)` over the temperature.
pub(crate) fn add_entropy_gradient(
    gradient: &mut [f32],
    logits: &[f32],
    softmax: &LogSoftmax,
    entropy: f32,
    weight: f32,
) {
    let LogSoftmax { highest, temperature, log_sum } = *softmax;
    vectorised(
        #[inline(always)]
        || {
            let logits = &logits[..gradient.len()];
            for token in 0..gradient.len() {
                let logprob = (logits[token] - highest) / temperature - log_sum;
                let probability = exp(logprob);
                let slope = surprise(probability, logprob) + probability * entropy;
                gradient[token] += weight / temperature * slope;
            }
        },
    );
}

/// `p log p`, which is 0 of a token that cannot come.
#[inline(always)]
fn surprise(probability: f32, logprob: f32) -> f32 {
    if probability > 0.0 { probability * logprob } else { 0.0 }
}

#[inline(always)]
fn highest(logits: &[f32]) -> f32 {
    let (blocks, rest) = logits.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for block in 0..blocks.len() {
        for lane in 0..LANES {
            let logit = blocks[block][lane];
            lanes[lane] = if logit > lanes[lane] { logit } else { lanes[lane] };
        }
    }
    let mut highest = f32::NEG_INFINITY;
    for lane in 0..LANES {
        highest = highest.max(lanes[lane]);
    }
    for lane in 0..rest.len() {
        highest = highest.max(rest[lane]);
    }
    highest
}

#[inline(always)]
fn sum_of_exponentials(logits: &[f32], highest: f32, temperature: f32) -> f32 {
    let (blocks, rest) = logits.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in 0..blocks.len() {
        for lane in 0..LANES {
            lanes[lane] += exp((blocks[block][lane] - highest) / temperature);
        }
    }
    for lane in 0..rest.len() {
        lanes[lane] += exp((rest[lane] - highest) / temperature);
    }
    fold(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::numbers;

    #[test]
    fn logprobs_are_those_of_the_exact_softmax() {
        for temperature in [0.5_f32, 1.0, 1.7] {
            let logits: Vec<f32> = numbers(5, 53).iter().map(|x| 8.0 * x).collect();
            let softmax = LogSoftmax::at_temperature(&logits, temperature);
            let scaled = |logit: f32| f64::from(logit) / f64::from(temperature);
            let sum: f64 = logits.iter().map(|&logit| scaled(logit).exp()).sum();
            for &logit in &logits {
                assert!((f64::from(softmax.logprob(logit)) - (scaled(logit) - sum.ln())).abs() < 3e-6);
            }
        }
    }

    #[test]
    fn a_number_that_is_none_makes_every_logprob_one_that_is_none() {
        assert!(LogSoftmax::new(&[1.0, f32::NAN, 0.0]).logprob(1.0).is_nan());
    }

    #[test]
    fn the_gradient_and_the_entropy_are_those_of_the_exact_softmax() {
        for length in [3, 16, 37] {
            let logits = numbers(length, 5);
            let exact: Vec<f64> = logits.iter().map(|logit| f64::from(*logit).exp()).collect();
            let sum: f64 = exact.iter().sum();
            let probabilities: Vec<f64> = exact.iter().map(|weight| weight / sum).collect();
            let mut gradient = logits.clone();
            let entropy = softmax_gradient(&mut gradient, &LogSoftmax::new(&logits), 0.5, [(1, 0.5)].into_iter());
            for (token, (gradient, probability)) in gradient.iter().zip(&probabilities).enumerate() {
                let expected = 0.5 * (f64::from(u8::from(token == 1)) - probability);
                assert!((f64::from(*gradient) - expected).abs() < 1e-6, "{length} {token}: {gradient} {expected}");
            }
            let expected: f64 = probabilities.iter().map(|probability| -probability * probability.ln()).sum();
            assert!((f64::from(entropy) - expected).abs() < 1e-5, "{length}: {entropy} {expected}");
        }
        let mut certain = vec![0.0, f32::NEG_INFINITY, f32::NEG_INFINITY];
        assert_eq!(
            softmax_gradient(&mut certain.clone(), &LogSoftmax::new(&certain), 1.0, [(0, 1.0)].into_iter()),
            0.0
        );
        certain[1] = 0.0;
        let entropy = softmax_gradient(&mut certain.clone(), &LogSoftmax::new(&certain), 1.0, [(0, 1.0)].into_iter());
        assert!((entropy - std::f32::consts::LN_2).abs() < 1e-6, "{entropy}");
    }
}
