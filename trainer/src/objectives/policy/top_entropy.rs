//! Trains the tokens at which the policy is least certain, and leaves out all others (Wang et al. 2025).

use fulgurite_types::{Datum, LossInputs};

/// Sets the advantage of every trained target to 0 whose entropy is below the quantile that leaves the upper `share`, between two
/// entropies by their distance as TRL has it, and gives which they are, one list per datum.
pub(crate) fn mask_by_entropy(data: &mut [Datum], entropies: &[Vec<f32>], share: f64) -> Vec<Vec<usize>> {
    let mut all: Vec<f32> = Vec::new();
    for (datum, entropies) in data.iter().zip(entropies) {
        if let LossInputs::Policy { mask, .. } = &datum.loss_inputs {
            all.extend(mask.iter().zip(entropies).filter(|(mask, _)| **mask > 0.0).map(|(_, entropy)| *entropy));
        }
    }
    all.sort_by(f32::total_cmp);
    let threshold = quantile(&all, 1.0 - share);
    let mut masked: Vec<Vec<usize>> = vec![Vec::new(); data.len()];
    for ((datum, entropies), masked) in data.iter_mut().zip(entropies).zip(&mut masked) {
        let LossInputs::Policy { advantages, mask, .. } = &mut datum.loss_inputs else { continue };
        let targets = advantages.iter_mut().zip(mask).zip(entropies).enumerate();
        for (target, ((advantage, mask), entropy)) in targets {
            if *mask > 0.0 && f64::from(*entropy) < threshold {
                *advantage = 0.0;
                masked.push(target);
            }
        }
    }
    masked
}

/// Of sorted numbers, between the two nearest by their distance; 0 of none.
fn quantile(sorted: &[f32], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let number = |place: f64| sorted.get(place as usize).copied().map_or(0.0, f64::from);
    let (low, high) = (number(place.floor()), number(place.ceil()));
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;
    use crate::objectives::policy::vectors::{close, doubles, floats, vectors};

    #[test]
    fn trls_gradient_of_the_least_certain_tokens() {
        let file = vectors("trl/losses.json");
        let theirs = &file["policies"]["top_entropy"];
        let rollouts = file["rollouts"].as_array().unwrap();
        let list = |key: &str| rollouts.iter().map(|rollout| floats(&rollout[key])).collect::<Vec<_>>();
        let (logprobs, entropies) = (list("logprobs"), list("entropies"));
        let mut data: Vec<Datum> = rollouts
            .iter()
            .map(|rollout| {
                let sampler = floats(&rollout["sampler"]);
                let count = sampler.len();
                let advantages = vec![rollout["advantage"].as_f64().unwrap() as f32; count];
                let loss_inputs = LossInputs::Policy { logprobs: sampler, advantages, mask: vec![1.0; count] };
                let model_input = vec![Chunk::Tokens(vec![1; count])];
                Datum { model_input, target_tokens: vec![1; count], loss_inputs }
            })
            .collect();
        let share = theirs["parameters"]["top_entropy_quantile"].as_f64().unwrap();
        let masked = mask_by_entropy(&mut data, &entropies, share);
        assert_eq!(masked.iter().map(Vec::len).sum::<usize>(), 11, "of 16");
        for ((datum, now), gradient) in data.iter().zip(&logprobs).zip(theirs["gradient"].as_array().unwrap()) {
            let LossInputs::Policy { logprobs, advantages, .. } = &datum.loss_inputs else { unreachable!() };
            let share = 1.0 / (now.len() * data.len()) as f64;
            for (((now, then), advantage), slope) in now.iter().zip(logprobs).zip(advantages).zip(doubles(gradient)) {
                let (ratio, advantage) = (f64::from(now - then).exp(), f64::from(*advantage));
                let is_clipped = (advantage > 0.0 && ratio > 1.28) || (advantage < 0.0 && ratio < 0.8);
                close(if is_clipped { 0.0 } else { -share * ratio * advantage }, slope);
            }
        }
    }

    #[test]
    fn a_share_of_1_leaves_all() {
        assert_eq!(mask_by_entropy(&mut [], &[], 0.5), Vec::<Vec<usize>>::new());
        assert_eq!(quantile(&[0.0, 1.0, 4.0], 0.0), 0.0);
        assert_eq!(quantile(&[0.0, 1.0, 4.0], 0.75), 2.5);
    }
}
