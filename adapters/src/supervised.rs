use fulgurite_types::{Chunk, Datum, Generation, LossInputs};

use crate::AdapterError;
use crate::merging::{CallTokens, merging_order};

/// How the weights of one supervised example are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// As they are: the example's loss is a sum over its tokens.
    None,
    /// Divided by their sum over the targets: every example counts the same, whatever its length. Weights that sum to
    /// zero stay as they are.
    Mean,
}

/// One row for cross entropy: `tokens` cut off on the right at `max_length`, position `i` predicting token `i + 1`
/// with the weight of token `i + 1`.
///
/// # Errors
/// [`AdapterError::WeightCount`] unless there is one weight per token, [`AdapterError::TooShort`] if less than two
/// tokens remain, [`AdapterError::Datum`] for a weight that is not finite.
pub fn supervised_datum(
    tokens: &[u32],
    weights: &[f32],
    max_length: Option<usize>,
    reduction: Reduction,
) -> Result<Datum, AdapterError> {
    if tokens.len() != weights.len() {
        return Err(AdapterError::WeightCount { tokens: tokens.len(), weights: weights.len() });
    }
    let length = max_length.unwrap_or(tokens.len()).min(tokens.len());
    if length < 2 {
        return Err(AdapterError::TooShort { positions: length });
    }
    let mut weights = weights[1..length].to_vec();
    let total: f32 = weights.iter().sum();
    if reduction == Reduction::Mean && total != 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= total);
    }
    let datum = Datum {
        model_input: vec![Chunk::Tokens(tokens[..length - 1].to_vec())],
        target_tokens: tokens[1..length].to_vec(),
        loss_inputs: LossInputs::Supervised { weights },
    };
    datum.validate()?;
    Ok(datum)
}

/// The tokens of calls of one attempt, in any order, with weight 1 where they were sampled. Calls that continue each other
/// token by token share a sequence, so that every sampled token has weight 1 exactly once, after exactly what the sampler
/// saw.
pub fn sampled_sequences(calls: &[&Generation]) -> Vec<(Vec<u32>, Vec<f32>)> {
    let mut in_order = calls.to_vec();
    in_order.sort_by_key(|generation| generation.sequence_id);
    let calls: Vec<CallTokens<'_>> = in_order
        .iter()
        .map(|generation| CallTokens { prompt: &generation.prompt_tokens, sampled: &generation.sampled_tokens })
        .collect();
    let mut sequences: Vec<(Vec<u32>, Vec<f32>)> = Vec::new();
    for index in merging_order(&calls) {
        let CallTokens { prompt, sampled } = calls[index];
        let (mut tokens, mut weights) = sequences.pop_if(|(tokens, _)| prompt.starts_with(tokens)).unwrap_or_default();
        tokens.extend_from_slice(&prompt[tokens.len()..]);
        weights.resize(tokens.len(), 0.0);
        tokens.extend_from_slice(sampled);
        weights.resize(tokens.len(), 1.0);
        sequences.push((tokens, weights));
    }
    sequences
}

#[cfg(test)]
mod tests {
    use fulgurite_types::DatumError;

    use super::*;
    use crate::vectors::{datum, floats, list, tokens, vectors};

    #[test]
    fn the_cookbooks_examples() {
        let file = vectors("rl_edge_cases.json");
        let cases = list(&file["supervised_datum"]);
        assert_eq!(cases.len(), 3);
        for case in cases {
            let reduction = match case["reduction"].as_str() {
                Some("none") => Reduction::None,
                Some("mean") => Reduction::Mean,
                other => panic!("{other:?}"),
            };
            let max_length = case["max_length"].as_u64().map(|length| usize::try_from(length).unwrap());
            let result = supervised_datum(&tokens(&case["tokens"]), &floats(&case["weights"]), max_length, reduction);
            assert_eq!(result, Ok(datum(&case["datum"])), "{case}");
        }
    }

    #[test]
    fn sampled_tokens_count_once_where_they_were_sampled() {
        let generation = |sequence_id, prompt: &[u32], sampled: &[u32]| Generation {
            sequence_id,
            ..crate::recorded::generation("g", prompt, sampled)
        };
        let calls = [
            generation(2, &[1, 2, 3, 4], &[5]),
            generation(1, &[1], &[2, 3]),
            generation(3, &[1, 2, 3, 6], &[7, 8]),
            generation(4, &[9], &[2]),
        ];
        assert_eq!(
            sampled_sequences(&calls.iter().collect::<Vec<_>>()),
            [
                (vec![1, 2, 3, 4, 5], vec![0.0, 1.0, 1.0, 0.0, 1.0]),
                (vec![1, 2, 3, 6, 7, 8], vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
                (vec![9, 2], vec![0.0, 1.0]),
            ]
        );
        assert!(sampled_sequences(&[]).is_empty());
    }

    #[test]
    fn the_weight_of_the_first_token_counts_for_nothing() {
        let LossInputs::Supervised { weights } =
            supervised_datum(&[1, 2, 3], &[9.0, 1.0, 3.0], None, Reduction::Mean).unwrap().loss_inputs
        else {
            unreachable!()
        };
        assert_eq!(weights, [0.25, 0.75]);
    }

    #[test]
    fn what_cannot_be_a_datum_is_refused_by_name() {
        let datum =
            |tokens: &[u32], weights: &[f32], length| supervised_datum(tokens, weights, length, Reduction::None);
        assert_eq!(datum(&[1, 2], &[1.0], None), Err(AdapterError::WeightCount { tokens: 2, weights: 1 }));
        assert_eq!(datum(&[1], &[1.0], None), Err(AdapterError::TooShort { positions: 1 }));
        assert_eq!(datum(&[1, 2], &[1.0, 1.0], Some(1)), Err(AdapterError::TooShort { positions: 1 }));
        let infinite = DatumError::NotFinite { name: "weights", index: 0, value: f32::INFINITY };
        assert_eq!(datum(&[1, 2], &[0.0, f32::INFINITY], None), Err(AdapterError::Datum(infinite)));
    }
}
