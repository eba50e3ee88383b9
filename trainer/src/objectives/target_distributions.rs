//! What a teacher would say in the places of a row, as a row of its own.

use fulgurite_types::{Datum, LossInputs};

/// The likeliest tokens of each place, their probabilities divided by their sum and multiplied by the place's weight. `None` if a
/// place that has a weight has no token, or logprobs that are no numbers.
pub(crate) fn soft_targets(
    weights: &[f32],
    likeliest: &[Vec<(u32, f32)>],
    width: usize,
    is_known: impl Fn(u32) -> bool,
) -> Option<LossInputs> {
    let (mut tokens, mut shares) = (Vec::new(), Vec::new());
    if likeliest.len() != weights.len() {
        return None;
    }
    for (weight, row) in weights.iter().zip(likeliest) {
        let known = row.iter().copied().filter(|(token, _)| is_known(*token)).take(width);
        let known: Vec<(u32, f32)> = if *weight == 0.0 { Vec::new() } else { known.collect() };
        let greatest = known.iter().map(|(_, logprob)| *logprob).fold(f32::NEG_INFINITY, f32::max);
        if *weight != 0.0 && !greatest.is_finite() {
            return None;
        }
        let probability = |logprob: f32| f64::from(logprob - greatest).exp();
        let sum: f64 = known.iter().map(|(_, logprob)| probability(*logprob)).sum();
        for slot in 0..width {
            let (token, share) = known.get(slot).map_or((0, 0.0), |(token, logprob)| {
                (*token, (f64::from(*weight) * probability(*logprob) / sum) as f32)
            });
            tokens.push(token);
            shares.push(share);
        }
    }
    Some(LossInputs::SoftTargets { width, tokens, weights: shares })
}

/// The entropy of a row's targets, each place times its weight; and how many places have one.
pub(crate) fn target_entropy(row: &Datum) -> (f64, usize) {
    let LossInputs::SoftTargets { width, weights, .. } = &row.loss_inputs else { return (0.0, 0) };
    let mut all = (0.0, 0);
    for place in weights.chunks_exact(*width) {
        let sum: f64 = place.iter().map(|weight| f64::from(*weight)).sum();
        let surprise = |weight: &f32| {
            let weight = f64::from(*weight);
            if weight > 0.0 { -weight * (weight / sum).ln() } else { 0.0 }
        };
        all.0 += place.iter().map(surprise).sum::<f64>();
        all.1 += usize::from(sum > 0.0);
    }
    all
}

/// Cross entropy's weights whose gradient is that of the reverse divergence between a row's targets, as the model has them among
/// themselves (`logprobs`, of every target), and as the teacher does; and that divergence, summed over the places.
///
/// For probabilities `p` of the model and `q` of the teacher, each of the targets of a place alone, the divergence is
/// `sum(p c)` with `c = log p - log q`, and its derivative by a target's logprob `p (c - sum(p c))`.
pub(crate) fn reverse_divergence(row: &Datum, logprobs: &[f32]) -> Option<(Datum, f64)> {
    let LossInputs::SoftTargets { width, tokens, weights } = &row.loss_inputs else { return None };
    if logprobs.len() != weights.len() {
        return None;
    }
    let (mut slopes, mut divergence) = (vec![0.0; weights.len()], 0.0);
    for (place, of_teacher) in weights.chunks_exact(*width).enumerate() {
        let slots: Vec<usize> = (0..*width).filter(|slot| of_teacher[*slot] > 0.0).collect();
        let own = |slot: usize| f64::from(logprobs[place * width + slot]);
        let greatest = slots.iter().map(|slot| own(*slot)).fold(f64::NEG_INFINITY, f64::max);
        let log_sum = slots.iter().map(|slot| (own(*slot) - greatest).exp()).sum::<f64>().ln() + greatest;
        let weight: f64 = slots.iter().map(|slot| f64::from(of_teacher[*slot])).sum();
        let difference = |slot: usize| own(slot) - log_sum - (f64::from(of_teacher[slot]) / weight).ln();
        let mean: f64 = slots.iter().map(|slot| (own(*slot) - log_sum).exp() * difference(*slot)).sum();
        for slot in slots {
            let probability = (own(slot) - log_sum).exp();
            slopes[place * width + slot] = (-weight * probability * (difference(slot) - mean)) as f32;
        }
        divergence += weight * mean;
    }
    let loss_inputs = LossInputs::SoftTargets { width: *width, tokens: tokens.clone(), weights: slopes };
    Some((Datum { loss_inputs, ..row.clone() }, divergence))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::objectives::policy::vectors::{close, floats, vectors};

    #[test]
    fn pytorchs_targets_and_their_entropy() {
        let case = &vectors("torch/distillation.json")["soft_targets"];
        let rows = |key: &str| case[key].as_array().unwrap().clone();
        let row = |(tokens, logprobs): (&Value, &Value)| {
            floats(tokens).into_iter().map(|token| token as u32).zip(floats(logprobs)).collect()
        };
        let likeliest: Vec<Vec<(u32, f32)>> = rows("tokens").iter().zip(&rows("teacher")).map(row).collect();
        let targets = soft_targets(&floats(&case["weights"]), &likeliest, 3, |_| true).unwrap();
        let LossInputs::SoftTargets { weights, .. } = &targets else { unreachable!() };
        let expected: Vec<f32> = rows("targets").iter().flat_map(floats).collect();
        assert_eq!(weights.len(), expected.len());
        weights.iter().zip(&expected).for_each(|(weight, expected)| close((*weight).into(), (*expected).into()));
        let row = Datum { model_input: vec![], target_tokens: vec![], loss_inputs: targets };
        let (entropy, places) = target_entropy(&row);
        close(entropy, case["entropy"].as_f64().unwrap());
        assert_eq!(places, 3, "one has no weight");
    }

    #[test]
    fn slots_without_a_token_weigh_nothing_and_a_place_without_one_is_refused() {
        let likeliest = vec![vec![(9, -0.5), (1, -1.0)], vec![(2, -1.0)]];
        let made = soft_targets(&[1.0, 0.0], &likeliest, 2, |token| token < 5).unwrap();
        let expected =
            LossInputs::SoftTargets { width: 2, tokens: vec![1, 0, 0, 0], weights: vec![1.0, 0.0, 0.0, 0.0] };
        assert_eq!(made, expected);
        assert_eq!(soft_targets(&[1.0, 1.0], &likeliest, 2, |token| token < 2), None);
        assert_eq!(soft_targets(&[1.0], &likeliest, 2, |_| true), None);
    }

    #[test]
    fn pytorchs_reverse_divergence_and_its_gradient() {
        let case = &vectors("torch/distillation.json")["reverse"];
        let of_rows = |key: &str| case[key].as_array().unwrap().iter().flat_map(floats).collect::<Vec<f32>>();
        let weights = of_rows("targets");
        let positions = weights.len() / 3;
        let row = Datum {
            model_input: vec![],
            target_tokens: vec![1; positions],
            loss_inputs: LossInputs::SoftTargets { width: 3, tokens: vec![1; weights.len()], weights },
        };
        let (made, divergence) = reverse_divergence(&row, &of_rows("logprobs")).unwrap();
        close(divergence, case["value"].as_f64().unwrap());
        let LossInputs::SoftTargets { weights, .. } = made.loss_inputs else { unreachable!() };
        // Cross entropy's derivative by a logprob is its weight, taken off.
        weights.iter().zip(of_rows("gradient")).for_each(|(weight, theirs)| close(-f64::from(*weight), theirs.into()));
    }
}
