use std::ops::Range;

use fulgurite_backends::AdamParameters;

use crate::EngineError;
use crate::kernels::vectorised;

/// AdamW's memory: moments laid out like the weights, empty until the first step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AdamState {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
    pub(crate) steps: u64,
}

/// L2 norm, summed in f64.
pub(crate) fn norm(gradient: &[f32]) -> f64 {
    gradient.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
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
    /// L2 norm is `norm`, is first scaled down to the clip norm if it is longer.
    pub(crate) fn begin<'a>(&'a mut self, parameters: &AdamParameters, gradient: &'a [f32], norm: f64) -> AdamStep<'a> {
        self.first.resize(gradient.len(), 0.0);
        self.second.resize(gradient.len(), 0.0);
        self.steps += 1;
        let AdamParameters { learning_rate, beta1, beta2, epsilon, weight_decay, gradient_clip_norm } = *parameters;
        let clipped = gradient_clip_norm > 0.0 && norm > gradient_clip_norm;
        let scale = if clipped { gradient_clip_norm / norm } else { 1.0 } as f32;
        let steps = self.steps as f64;
        let step_size = (learning_rate / (1.0 - beta1.powf(steps))) as f32;
        let second_scale = (1.0 / (1.0 - beta2.powf(steps))) as f32;
        let keep = (1.0 - learning_rate * weight_decay) as f32;
        AdamStep {
            first: &mut self.first,
            second: &mut self.second,
            gradient,
            scale,
            step_size,
            second_scale,
            keep,
            decay: (beta1 as f32, beta2 as f32),
            fresh: ((1.0 - beta1) as f32, (1.0 - beta2) as f32),
            epsilon: epsilon as f32,
        }
    }
}

/// A step under way, which each weight is to take once.
pub(crate) struct AdamStep<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradient: &'a [f32],
    scale: f32,
    step_size: f32,
    second_scale: f32,
    keep: f32,
    decay: (f32, f32),
    fresh: (f32, f32),
    epsilon: f32,
}

impl AdamStep<'_> {
    /// For the weights of this place.
    pub(crate) fn take(&mut self, place: Range<usize>, weights: &mut [f32]) {
        let Self { first, second, gradient, scale, step_size, second_scale, keep, decay, fresh, epsilon } = self;
        let (first, second, gradient) =
            (&mut first[place.clone()], &mut second[place.clone()], &gradient[place.clone()]);
        let (scale, step_size, second_scale, keep) = (*scale, *step_size, *second_scale, *keep);
        let ((decay1, decay2), (fresh1, fresh2), epsilon) = (*decay, *fresh, *epsilon);
        vectorised(
            #[inline(always)]
            || {
                let count = weights.len();
                let (gradient, first, second) = (&gradient[..count], &mut first[..count], &mut second[..count]);
                for i in 0..count {
                    let slope = gradient[i] * scale;
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

    fn parameters() -> AdamParameters {
        AdamParameters { learning_rate: 0.1, weight_decay: 0.5, gradient_clip_norm: 0.0, ..AdamParameters::default() }
    }

    fn step(state: &mut AdamState, parameters: &AdamParameters, weights: &mut [f32], gradient: &[f32]) {
        state.begin(parameters, gradient, norm(gradient)).take(0..weights.len(), weights);
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

    #[test]
    fn a_long_gradient_is_scaled_to_the_clip_norm() {
        let clipping = AdamParameters { gradient_clip_norm: 1.0, ..parameters() };
        let mut state = AdamState::default();
        step(&mut state, &clipping, &mut [0.0, 0.0], &[3.0, 4.0]);
        assert!((state.first[0] - 0.06).abs() < 1e-7 && (state.first[1] - 0.08).abs() < 1e-7);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let error = check(&AdamParameters { beta2: 1.0, ..AdamParameters::default() }).unwrap_err();
        assert_eq!(error.to_string(), "optimizer: beta2 is 1");
    }
}
