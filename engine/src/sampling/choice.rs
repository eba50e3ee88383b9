use fulgurite_backends::BackendError;
use fulgurite_types::SamplingParameters;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

use crate::kernels::LogSoftmax;

/// A number in `[0, 1)`, each multiple of 2⁻⁵³ equally likely.
pub(crate) fn uniform(generator: &mut ChaCha8Rng) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    (generator.next_u64() >> 11) as f64 * UNIT
}

/// The error for logits from which nothing can be chosen.
pub(crate) fn not_finite() -> BackendError {
    BackendError::Internal { message: "the weights give logits that are not finite numbers".to_owned() }
}

/// A token chosen from a position's distribution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) token: u32,
    /// Under the distribution that it was chosen from.
    pub(crate) logprob: f32,
    /// The likeliest tokens, likeliest first.
    pub(crate) likeliest: Vec<(u32, f32)>,
}

/// Chooses a token: `uniform`, a number in `[0, 1)`, is a place in the cumulated probabilities.
///
/// Temperature comes first, then top-k, then top-p, each over what the one before has left. At temperature 0 the
/// likeliest token is certain; the alternatives reported are then those of the distribution that `logits` are, because
/// in a certain choice they have no logprob. A token of logit -∞ cannot be chosen and is no alternative. `None` if the
/// logits are not finite otherwise.
pub(crate) fn choose(
    logits: &[f32],
    sampling: &SamplingParameters,
    uniform: f64,
    alternatives: usize,
    weights: &mut Vec<f32>,
) -> Option<Choice> {
    let temperature = if sampling.temperature == 0.0 { 1.0 } else { sampling.temperature };
    let softmax = LogSoftmax::at_temperature(logits, temperature);
    if !softmax.is_finite() {
        return None;
    }
    let logprob = |token: u32| softmax.logprob(logits[token as usize]);
    let certain = sampling.temperature == 0.0;
    let filtered = sampling.top_k.is_some() || sampling.top_p < 1.0;
    let order = if certain || filtered || alternatives > 0 { by_likelihood(logits) } else { Vec::new() };
    let likeliest = || order.iter().take(alternatives).map(|&token| (token, logprob(token))).collect();
    if certain {
        return Some(Choice { token: order[0], logprob: 0.0, likeliest: likeliest() });
    }
    weights.resize(logits.len(), 0.0);
    softmax.weigh(logits, weights);
    if filtered {
        return Some(choose_among(keep(&order, weights, sampling), weights, uniform, alternatives));
    }
    let token = pick(weights.iter().enumerate().map(|(token, &weight)| (token as u32, weight)), uniform);
    Some(Choice { token, logprob: logprob(token), likeliest: likeliest() })
}

/// Chooses among the tokens that the filters left, whose probabilities then sum to 1. One whose probability is too small
/// to be distinguished from 0 is no alternative.
fn choose_among(kept: &[u32], weights: &[f32], uniform: f64, alternatives: usize) -> Choice {
    let weight = |token: u32| f64::from(weights[token as usize]);
    let total: f64 = kept.iter().map(|&token| weight(token)).sum();
    let logprob = |token: u32| (weight(token) / total).ln() as f32;
    let token = pick(kept.iter().map(|&token| (token, weights[token as usize])), uniform);
    let likeliest = kept.iter().take_while(|token| weight(**token) > 0.0).take(alternatives);
    let likeliest = likeliest.map(|&token| (token, logprob(token))).collect();
    Choice { token, logprob: logprob(token), likeliest }
}

/// So many of the tokens that can be chosen, likeliest first.
pub(crate) fn likeliest(logits: &[f32], count: usize) -> Vec<u32> {
    let mut order = by_likelihood(logits);
    order.truncate(count);
    order
}

/// Tokens that can be chosen, likeliest first; of equals the lower id.
fn by_likelihood(logits: &[f32]) -> Vec<u32> {
    let can_be_chosen = |token: &u32| logits[*token as usize] > f32::NEG_INFINITY;
    let mut order: Vec<u32> = (0..logits.len() as u32).filter(can_be_chosen).collect();
    order.sort_unstable_by(|&left, &right| {
        logits[right as usize].total_cmp(&logits[left as usize]).then(left.cmp(&right))
    });
    order
}

/// The tokens that top-k and then top-p leave.
fn keep<'a>(order: &'a [u32], weights: &[f32], sampling: &SamplingParameters) -> &'a [u32] {
    let order = &order[..sampling.top_k.unwrap_or(order.len()).min(order.len())];
    if sampling.top_p >= 1.0 {
        return order;
    }
    let weight = |token: &u32| f64::from(weights[*token as usize]);
    let wanted = f64::from(sampling.top_p) * order.iter().map(weight).sum::<f64>();
    let mut sum = 0.0;
    let enough = order.iter().position(|token| {
        sum += weight(token);
        sum >= wanted
    });
    &order[..enough.map_or(order.len(), |last| last + 1)]
}

/// The token at `uniform` of the way through the summed weights. A token without weight is never picked.
fn pick(candidates: impl Iterator<Item = (u32, f32)> + Clone, uniform: f64) -> u32 {
    let total: f64 = candidates.clone().map(|(_, weight)| f64::from(weight)).sum();
    let place = uniform * total;
    let mut sum = 0.0;
    let mut picked = 0;
    for (token, weight) in candidates.filter(|(_, weight)| *weight > 0.0) {
        picked = token;
        sum += f64::from(weight);
        if sum > place {
            break;
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logits() -> Vec<f32> {
        [0.1_f32, 0.4, 0.2, 0.3].iter().map(|probability| probability.ln()).collect()
    }

    fn choose_at(uniform: f64, sampling: SamplingParameters) -> Choice {
        choose(&logits(), &sampling, uniform, 4, &mut Vec::new()).unwrap()
    }

    #[test]
    fn the_uniform_number_is_a_place_in_the_cumulated_probabilities() {
        let tokens: Vec<u32> = [0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, 0.999]
            .map(|uniform| choose_at(uniform, SamplingParameters::default()).token)
            .to_vec();
        assert_eq!(tokens, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn temperature_0_takes_the_likeliest_with_certainty() {
        let choice = choose_at(0.99, SamplingParameters { temperature: 0.0, ..SamplingParameters::default() });
        assert_eq!((choice.token, choice.logprob), (1, 0.0));
        assert_eq!(choice.likeliest.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3, 2, 0]);
        assert!((choice.likeliest[0].1 - 0.4_f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn logprobs_are_those_of_what_the_filters_left() {
        let top_k = SamplingParameters { top_k: Some(2), ..SamplingParameters::default() };
        let choice = choose_at(0.0, top_k.clone());
        assert_eq!(choice.token, 1);
        assert!((choice.logprob - (0.4_f32 / 0.7).ln()).abs() < 1e-6);
        assert_eq!(choose_at(0.6, top_k.clone()).token, 3);
        assert_eq!(choice.likeliest.len(), 2);
        // 0.4 alone is 0.571 of what top-k left.
        let both = SamplingParameters { top_p: 0.57, ..top_k };
        assert_eq!(choose_at(0.999, both), Choice { token: 1, logprob: 0.0, likeliest: vec![(1, 0.0)] });
    }

    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_it() {
        let sampling = |top_p| SamplingParameters { top_p, ..SamplingParameters::default() };
        assert_eq!(choose_at(0.0, sampling(0.39)).likeliest.len(), 1);
        assert_eq!(choose_at(0.0, sampling(0.41)).likeliest.len(), 2);
        assert_eq!(choose_at(0.0, sampling(0.71)).likeliest.len(), 3);
    }

    #[test]
    fn logits_that_are_not_numbers_choose_nothing() {
        assert_eq!(choose(&[0.0, f32::NAN], &SamplingParameters::default(), 0.5, 0, &mut Vec::new()), None);
    }

    #[test]
    fn a_masked_token_is_neither_chosen_nor_reported() {
        let mut masked = logits();
        (masked[1], masked[3]) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for temperature in [0.0, 1.0] {
            for uniform in [0.0, 0.5, 0.999] {
                let sampling = SamplingParameters { temperature, ..SamplingParameters::default() };
                let choice = choose(&masked, &sampling, uniform, 4, &mut Vec::new()).unwrap();
                assert_eq!(choice.token, if temperature == 1.0 && uniform < 0.3 { 0 } else { 2 });
                let probabilities: Vec<f32> = choice.likeliest.iter().map(|(_, logprob)| logprob.exp()).collect();
                assert!((probabilities[0] - 2.0 / 3.0).abs() < 1e-6 && (probabilities[1] - 1.0 / 3.0).abs() < 1e-6);
                assert_eq!(probabilities.len(), 2);
            }
        }
        let nothing = [f32::NEG_INFINITY; 2];
        assert_eq!(choose(&nothing, &SamplingParameters::default(), 0.5, 2, &mut Vec::new()), None);
    }

    #[test]
    fn an_alternative_without_weight_is_not_reported() {
        let sampling = SamplingParameters { top_k: Some(3), ..SamplingParameters::default() };
        let choice = choose(&[-500.0, 1.0, 1.0, -400.0], &sampling, 0.0, 3, &mut Vec::new()).unwrap();
        assert_eq!(choice.likeliest, [(1, 0.5_f32.ln()), (2, 0.5_f32.ln())]);
    }

    proptest! {
        #[test]
        fn reporting_alternatives_changes_nothing_else(
            logits in proptest::collection::vec(-5.0_f32..5.0, 1..40), uniform in 0.0..1.0_f64, temperature in 0.1_f32..3.0,
        ) {
            let sampling = SamplingParameters { temperature, ..SamplingParameters::default() };
            let plain = choose(&logits, &sampling, uniform, 0, &mut Vec::new()).unwrap();
            let reported = choose(&logits, &sampling, uniform, 3, &mut Vec::new()).unwrap();
            prop_assert_eq!((plain.token, plain.logprob), (reported.token, reported.logprob));
            let sum: f32 = choose(&logits, &sampling, uniform, logits.len(), &mut Vec::new())
                .unwrap().likeliest.iter().map(|(_, logprob)| logprob.exp()).sum();
            prop_assert!((sum - 1.0).abs() < 1e-5);
        }
    }
}
