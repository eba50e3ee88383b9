use fulgurite_backends::{Chunk, Datum, LossInputs};

use crate::AdapterError;

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
