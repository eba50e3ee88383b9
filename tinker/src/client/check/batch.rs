//! The batch that every probe is made with.

use fulgurite_types::{Chunk, Datum, LossInputs};

/// Sequences.
const ROWS: usize = 4;
/// Targets of each.
const TARGETS: usize = 12;
/// Ids are below this, and so in every vocabulary.
const IDS: usize = 61;
/// Distances of the logprobs that tokens were sampled with from the model's own: some beyond every usual bound of ratios.
const OFFSETS: [f32; 5] = [0.0, 0.1, -0.1, 0.5, -0.5];
/// A distance beyond every usual bound of ratios.
const FAR: f32 = 0.5;
const ADVANTAGES: [f32; 3] = [1.0, -0.5, 0.75];

/// The tokens of each sequence, one more than it has targets.
pub(super) fn sequences() -> Vec<Vec<u32>> {
    let token = |row: usize, place: usize| (3 + (row * 17 + place * (7 + 2 * row) + place * place) % IDS) as u32;
    (0..ROWS).map(|row| (0..=TARGETS).map(|place| token(row, place)).collect()).collect()
}

fn data(inputs: impl Fn(usize) -> LossInputs) -> Vec<Datum> {
    let datum = |(row, tokens): (usize, Vec<u32>)| Datum {
        model_input: vec![Chunk::Tokens(tokens[..TARGETS].to_vec())],
        target_tokens: tokens[1..].to_vec(),
        loss_inputs: inputs(row),
    };
    sequences().into_iter().enumerate().map(datum).collect()
}

/// The targets with these weights, one after another and from the first again.
pub(super) fn supervised(weights: &[f32]) -> Vec<Datum> {
    data(|_| LossInputs::Supervised { weights: weights.iter().copied().cycle().take(TARGETS).collect() })
}

/// The targets with a weight for each, in the order of sequences and places.
pub(super) fn weighted(weights: &[f64]) -> Vec<Datum> {
    data(|row| {
        let own = weights.iter().skip(row * TARGETS).take(TARGETS);
        LossInputs::Supervised { weights: own.map(|&weight| weight as f32).collect() }
    })
}

/// Two targets for each place: the sequence's own, and another token.
pub(super) fn soft_targets() -> Vec<Datum> {
    let sequences = sequences();
    data(|row| {
        let own = &sequences[row][1..];
        let tokens = own.iter().flat_map(|&token| [token, 3 + (token + 11) % IDS as u32]).collect();
        LossInputs::SoftTargets { width: 2, tokens, weights: [0.75, 0.25].repeat(TARGETS) }
    })
}

/// The targets as if they had been sampled: from logprobs near to the model's own, which are `logprobs`.
pub(super) fn policy(logprobs: &[Vec<f32>]) -> Vec<Datum> {
    sampled_from(logprobs, |row, place| OFFSETS[(row + place) % OFFSETS.len()])
}

/// The same, but a whole sequence is farther from the model's own than usual bounds of ratios.
pub(super) fn far_policy(logprobs: &[Vec<f32>]) -> Vec<Datum> {
    sampled_from(logprobs, |row, _| if row % 2 == 0 { FAR } else { -FAR })
}

fn sampled_from(logprobs: &[Vec<f32>], offset: impl Fn(usize, usize) -> f32) -> Vec<Datum> {
    data(|row| {
        let own = logprobs[row].iter().enumerate();
        LossInputs::Policy {
            logprobs: own.map(|(place, logprob)| logprob + offset(row, place)).collect(),
            advantages: ADVANTAGES.into_iter().cycle().skip(row).take(TARGETS).collect(),
            mask: vec![1.0; TARGETS],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datum_is_valid_and_no_two_sequences_are_one() {
        let logprobs = vec![vec![-2.0; TARGETS]; ROWS];
        let weights: Vec<f64> = (0..ROWS * TARGETS).map(|place| place as f64).collect();
        for data in [supervised(&[1.0, -0.5]), weighted(&weights), soft_targets(), policy(&logprobs)] {
            assert_eq!(data.len(), ROWS);
            data.iter().for_each(|datum| datum.validate().unwrap());
        }
        let mut sequences = sequences();
        assert!(sequences.iter().flatten().all(|&token| token < 64));
        sequences.sort();
        sequences.dedup();
        assert_eq!(sequences.len(), ROWS);
    }
}
