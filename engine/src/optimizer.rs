use fulgurite_backends::AdamParameters;

use crate::error::EngineError;
use crate::kernels::vectorised;
use crate::threads::{cut, share};

/// AdamW's memory: moments laid out like the weights, empty until the first step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AdamState {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
    pub(crate) steps: u64,
}

/// Numbers of a gradient that are gone through together.
const PART: usize = 1 << 16;

/// Adds the other shards' gradients to the first, clears them, and returns the sum's L2 norm, summed in f64. The threads of
/// the pool that this is called in share the work, and change nothing of the result.
pub(crate) fn gather(sum: &mut [f32], others: &mut [&mut [f32]]) -> f64 {
    let mut squares = vec![0.0; sum.len().div_ceil(PART)];
    let mut others: Vec<_> = others.iter_mut().map(|other| other.chunks_mut(PART)).collect();
    let parts = sum.chunks_mut(PART).zip(&mut squares).map(|(sum, square)| {
        let others: Vec<_> = others.iter_mut().filter_map(Iterator::next).collect();
        (sum, others, square)
    });
    share(parts.collect(), |(sum, others, square): (&mut [f32], Vec<&mut [f32]>, &mut f64)| {
        for other in others {
            add_and_clear(sum, other);
        }
        *square = sum_of_squares(sum);
    });
    squares.iter().sum::<f64>().sqrt()
}

fn add_and_clear(sum: &mut [f32], other: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let other = &mut other[..sum.len()];
            for i in 0..sum.len() {
                sum[i] += other[i];
                other[i] = 0.0;
            }
        },
    );
}

#[allow(clippy::needless_range_loop)] // iterators are not always inlined into code for other processor features
fn sum_of_squares(numbers: &[f32]) -> f64 {
    /// Sums that do not wait for each other.
    const LANES: usize = 16;
    let (blocks, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    vectorised(
        #[inline(always)]
        || {
            for block in 0..blocks.len() {
                for lane in 0..LANES {
                    let number = f64::from(blocks[block][lane]);
                    sums[lane] += number * number;
                }
            }
        },
    );
    sums.iter().sum::<f64>() + rest.iter().map(|&number| f64::from(number) * f64::from(number)).sum::<f64>()
}

/// Refuses parameters that would put nonsense into the weights.
pub(crate) fn check(parameters: &AdamParameters) -> Result<(), EngineError> {
    let AdamParameters { learning_rate, beta1, beta2, epsilon, weight_decay, gradient_clip_norm } = *parameters;
    let not_negative = |value: f64| value.is_finite() && value >= 0.0;
    let below_one = |value: f64| (0.0..1.0).contains(&value);
    for (name, value, sound) in [
        ("learning_rate", learning_rate, not_negative(learning_rate)),
        ("beta1", beta1, below_one(beta1)),
        ("beta2", beta2, below_one(beta2)),
        ("epsilon", epsilon, epsilon.is_finite() && epsilon > 0.0),
        ("weight_decay", weight_decay, not_negative(weight_decay)),
        ("gradient_clip_norm", gradient_clip_norm, not_negative(gradient_clip_norm)),
    ] {
        if !sound {
            return Err(EngineError::Optimizer { name, value });
        }
    }
    Ok(())
}

impl AdamState {
    /// Begins a step of AdamW with decoupled decay (Loshchilov and Hutter, 2019), on every weight alike. The gradient, whose
    /// L2 norm is `norm`, is first scaled down to the clip norm if it is longer; the step clears it.
    pub(crate) fn begin<'a>(
        &'a mut self,
        parameters: &AdamParameters,
        gradient: &'a mut [f32],
        norm: f64,
        rates: &'a [Rate],
    ) -> AdamStep<'a> {
        self.first.resize(gradient.len(), 0.0);
        self.second.resize(gradient.len(), 0.0);
        self.steps += 1;
        let AdamParameters { learning_rate, beta1, beta2, epsilon, weight_decay, gradient_clip_norm } = *parameters;
        let clipped = gradient_clip_norm > 0.0 && norm > gradient_clip_norm;
        let scale = if clipped { gradient_clip_norm / norm } else { 1.0 } as f32;
        let steps = self.steps as f64;
        let step_size = learning_rate / (1.0 - beta1.powf(steps));
        let second_scale = (1.0 / (1.0 - beta2.powf(steps))) as f32;
        let weight_decay = learning_rate * weight_decay;
        let rule = AdamRule {
            scale,
            step_size,
            second_scale,
            weight_decay,
            decay: (beta1 as f32, beta2 as f32),
            fresh: ((1.0 - beta1) as f32, (1.0 - beta2) as f32),
            epsilon: epsilon as f32,
        };
        AdamStep { first: &mut self.first, second: &mut self.second, gradient, rule, rates, start: 0 }
    }
}

/// A step under way, of all weights or of some that follow one another.
pub(crate) struct AdamStep<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradient: &'a mut [f32],
    rule: AdamRule,
    /// Empty where all weights learn alike.
    rates: &'a [Rate],
    /// The place of the first weight in the layout.
    start: usize,
}

/// The factor of the step size of the weights from the last rate's end on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Behind the last of them, in the layout.
    pub(crate) end: usize,
    /// 0 leaves them as they are.
    pub(crate) factor: f64,
}

/// What is the same for every weight.
#[derive(Clone, Copy)]
struct AdamRule {
    scale: f32,
    step_size: f64,
    second_scale: f32,
    /// Times the step size.
    weight_decay: f64,
    decay: (f32, f32),
    fresh: (f32, f32),
    epsilon: f32,
}

impl<'a> AdamStep<'a> {
    /// Cuts off the first so many weights.
    pub(crate) fn front(&mut self, count: usize) -> AdamStep<'a> {
        let start = self.start;
        self.start += count;
        AdamStep {
            rates: self.rates,
            start,
            first: cut(&mut self.first, count),
            second: cut(&mut self.second, count),
            gradient: cut(&mut self.gradient, count),
            rule: self.rule,
        }
    }

    /// Takes it, for all of these weights.
    pub(crate) fn take(mut self, mut weights: &mut [f32]) {
        while !weights.is_empty() {
            let rate = self.rates.get(self.rates.partition_point(|rate| rate.end <= self.start)).copied();
            let count = rate.map_or(weights.len(), |rate| weights.len().min(rate.end - self.start));
            self.front(count).take_at(rate.map_or(1.0, |rate| rate.factor), cut(&mut weights, count));
        }
    }

    fn take_at(self, factor: f64, weights: &mut [f32]) {
        let Self { first, second, gradient, rule, .. } = self;
        let AdamRule { scale, second_scale, epsilon, .. } = rule;
        let step_size = (rule.step_size * factor) as f32;
        let keep = (1.0 - rule.weight_decay * factor) as f32;
        let ((decay1, decay2), (fresh1, fresh2)) = (rule.decay, rule.fresh);
        vectorised(
            #[inline(always)]
            || {
                let count = weights.len();
                let (gradient, first, second) = (&mut gradient[..count], &mut first[..count], &mut second[..count]);
                for i in 0..count {
                    let slope = gradient[i] * scale;
                    gradient[i] = 0.0;
                    first[i] = decay1 * first[i] + fresh1 * slope;
                    second[i] = decay2 * second[i] + fresh2 * slope * slope;
                    let root = (second[i] * second_scale).sqrt() + epsilon;
                    weights[i] = keep * weights[i] - step_size * first[i] / root;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::numbers;

    fn parameters() -> AdamParameters {
        AdamParameters { learning_rate: 0.1, weight_decay: 0.5, gradient_clip_norm: 0.0, ..AdamParameters::default() }
    }

    fn step(state: &mut AdamState, parameters: &AdamParameters, weights: &mut [f32], gradient: &[f32]) {
        let mut gradient = gradient.to_vec();
        let norm = gather(&mut gradient, &mut []);
        state.begin(parameters, &mut gradient, norm, &[]).take(weights);
        assert!(gradient.iter().all(|slope| *slope == 0.0));
    }

    #[test]
    fn the_first_step_is_the_learning_rate_against_the_gradient_after_decay() {
        let mut weights = [1.0, -2.0];
        step(&mut AdamState::default(), &parameters(), &mut weights, &[0.3, -4.0]);
        assert!((weights[0] - (0.95 - 0.1)).abs() < 1e-6);
        assert!((weights[1] - (-1.9 + 0.1)).abs() < 1e-6);
    }

    #[test]
    fn two_steps_agree_with_the_formula_in_f64() {
        let mut state = AdamState::default();
        let mut weights = [0.7_f32];
        let (mut weight, mut first, mut second) = (0.7_f64, 0.0, 0.0);
        for (count, gradient) in [(1, 0.25), (2, -1.5)] {
            step(&mut state, &parameters(), &mut weights, &[gradient as f32]);
            first = 0.9 * first + 0.1 * gradient;
            second = 0.95 * second + 0.05 * gradient * gradient;
            let root = (second / (1.0 - 0.95_f64.powi(count))).sqrt() + 1e-8;
            weight = weight * (1.0 - 0.1 * 0.5) - 0.1 * first / (1.0 - 0.9_f64.powi(count)) / root;
        }
        assert!((f64::from(weights[0]) - weight).abs() < 1e-6);
    }

    /// torch 2.15.0, `torch.optim.AdamW` with betas of 0.9 and 0.95 and a step size of 0.02, after three steps.
    #[test]
    fn weight_decay_and_epsilon_are_those_of_pytorch() {
        for (weight_decay, epsilon, expected) in [
            (0.1, 1e-8, [0.6748955845832825, -1.2398525476455688, 1.944838047027588, -0.04053972661495209]),
            (0.1, 1e-3, [0.6749690771102905, -1.2398961782455444, 1.981955647468567, -0.038442209362983704]),
            (0.0, 1e-6, [0.6790218353271484, -1.2475193738937378, 1.9569963216781616, -0.04062677174806595]),
        ] {
            let parameters = AdamParameters { learning_rate: 0.02, epsilon, weight_decay, ..parameters() };
            let (mut state, mut weights) = (AdamState::default(), [0.7, -1.3, 2.0, -0.01]);
            for gradient in [[0.25, -1.5, 1e-4, 0.0], [-0.5, -0.75, 3e-4, 0.02], [1.0, 0.125, -2e-4, 0.01]] {
                step(&mut state, &parameters, &mut weights, &gradient);
            }
            let close = |(is, expected): (&f32, &f64)| (f64::from(*is) - expected).abs() < 1e-6;
            assert!(weights.iter().zip(&expected).all(close), "{weight_decay} {epsilon}: {weights:?}");
        }
    }

    #[test]
    fn parts_learn_at_rates_of_their_own_wherever_a_step_is_cut() {
        let rates = [Rate { end: 2, factor: 0.0 }, Rate { end: 3, factor: 0.5 }, Rate { end: 6, factor: 1.0 }];
        let (start, slopes) = (numbers(1, 6), numbers(2, 6));
        let alone = |factor: f64| {
            let scaled = AdamParameters { learning_rate: 0.1 * factor, ..parameters() };
            let mut weights = start.clone();
            step(&mut AdamState::default(), &scaled, &mut weights, &slopes);
            weights
        };
        let expected = [&start[..2], &alone(0.5)[2..3], &alone(1.0)[3..]].concat();
        for cuts in [vec![6], vec![1, 5], vec![2, 1, 3], vec![4, 2]] {
            let (mut state, mut weights, mut gradient) = (AdamState::default(), start.clone(), slopes.clone());
            let mut made = state.begin(&parameters(), &mut gradient, 1.0, &rates);
            let mut left = &mut weights[..];
            cuts.iter().for_each(|count| made.front(*count).take(cut(&mut left, *count)));
            assert_eq!(weights, expected, "{cuts:?}");
        }
    }

    #[test]
    fn a_long_gradient_is_scaled_to_the_clip_norm() {
        let clipping = AdamParameters { gradient_clip_norm: 1.0, ..parameters() };
        let mut state = AdamState::default();
        step(&mut state, &clipping, &mut [0.0, 0.0], &[3.0, 4.0]);
        assert!((state.first[0] - 0.06).abs() < 1e-7 && (state.first[1] - 0.08).abs() < 1e-7);
    }

    #[test]
    fn gradients_are_added_and_measured_the_same_on_any_number_of_threads() {
        let (first, second) = (numbers(1, 2 * PART + 21), numbers(2, 2 * PART + 21));
        let gathered = || {
            let (mut sum, mut other) = (first.clone(), second.clone());
            let norm = gather(&mut sum, &mut [&mut other]);
            assert!(other.iter().all(|slope| *slope == 0.0));
            (sum, norm)
        };
        let (sum, norm) = gathered();
        assert!(sum.iter().zip(first.iter().zip(&second)).all(|(sum, (first, second))| *sum == first + second));
        let exact = sum.iter().map(|&slope| f64::from(slope).powi(2)).sum::<f64>().sqrt();
        assert!((norm / exact - 1.0).abs() < 1e-12);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(pool.install(gathered), (sum, norm));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let error = check(&AdamParameters { beta2: 1.0, ..AdamParameters::default() }).unwrap_err();
        assert_eq!(error.to_string(), "optimizer: beta2 is 1");
    }
}
