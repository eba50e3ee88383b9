use fulgurite_types::{Chunk, Datum, LossInputs};

/// A row whose score is read at its last token, which predicts nothing.
pub(crate) fn scored_datum(tokens: Vec<u32>) -> Datum {
    let mut weights = vec![0.0; tokens.len()];
    weights.iter_mut().rev().take(1).for_each(|last| *last = 1.0);
    Datum {
        target_tokens: tokens.clone(),
        model_input: vec![Chunk::Tokens(tokens)],
        loss_inputs: LossInputs::Supervised { weights },
    }
}
