use serde::{Deserialize, Serialize};

/// A piece of a model's input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chunk {
    /// Token ids.
    Tokens(Vec<u32>),
    /// An image, known here by its identity and by how many positions it takes in the sequence.
    Image {
        /// Equal for equal images.
        digest: String,
        /// Positions that it takes.
        expected_tokens: usize,
    },
}

impl Chunk {
    /// Positions that the chunk takes in the sequence.
    pub fn positions(&self) -> usize {
        match self {
            Chunk::Tokens(tokens) => tokens.len(),
            Chunk::Image { expected_tokens, .. } => *expected_tokens,
        }
    }
}

/// What a loss needs beside the targets; every list has one entry per target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossInputs {
    /// Cross entropy.
    Supervised {
        /// Weight of each target in the loss; 0 leaves it out.
        weights: Vec<f32>,
    },
    /// Cross entropy against a distribution for each position, such as the likeliest tokens of a teacher.
    SoftTargets {
        /// Targets of each position.
        width: usize,
        /// The targets, those of a position one after another: `width` times as many as there are positions.
        tokens: Vec<u32>,
        /// Weight of each of them in the loss; 0 leaves it out.
        weights: Vec<f32>,
    },
    /// The policy-gradient losses.
    Policy {
        /// The sampler's logprob of each target; 0 where the target was not sampled.
        logprobs: Vec<f32>,
        /// Advantage of each target; 0 where the target was not sampled.
        advantages: Vec<f32>,
        /// 1 where the target was sampled and is to be trained, else 0. Stays to the end, so that any transform of
        /// the advantages can be masked again; a learner ignores every target whose mask is 0.
        mask: Vec<f32>,
    },
}

/// One row of training data: position `i` of the input predicts `target_tokens[i]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Datum {
    /// The input, all but the last token of the sequence.
    pub model_input: Vec<Chunk>,
    /// The label of each input position; 0 where the label is not a token.
    pub target_tokens: Vec<u32>,
    /// What the loss needs.
    pub loss_inputs: LossInputs,
}

/// Why a datum is not one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatumError {
    /// Lists that must be equally long are not.
    #[error("{name} has {actual} entries where the input has {expected} positions")]
    Length {
        /// Which list.
        name: &'static str,
        /// Its length.
        actual: usize,
        /// Positions of the input.
        expected: usize,
    },
    /// Lists are not of so many targets for each position.
    #[error("tokens and weights have {tokens} and {weights} entries, not {width} for each of {positions} positions")]
    Width {
        /// Tokens.
        tokens: usize,
        /// Weights.
        weights: usize,
        /// Targets of each position; one at least.
        width: usize,
        /// Positions of the input.
        positions: usize,
    },
    /// A value is NaN or infinite.
    #[error("{name}[{index}] is {value}, not a finite number")]
    NotFinite {
        /// Which list.
        name: &'static str,
        /// Where.
        index: usize,
        /// What stands there.
        value: f32,
    },
}

impl Datum {
    /// Positions of the input.
    pub fn positions(&self) -> usize {
        self.model_input.iter().map(Chunk::positions).sum()
    }

    /// How many targets a position has.
    pub fn targets_per_position(&self) -> usize {
        match &self.loss_inputs {
            LossInputs::SoftTargets { width, .. } => *width,
            LossInputs::Supervised { .. } | LossInputs::Policy { .. } => 1,
        }
    }

    /// The targets of which a learner tells logprobs, position by position.
    pub fn targets(&self) -> &[u32] {
        match &self.loss_inputs {
            LossInputs::SoftTargets { tokens, .. } => tokens,
            LossInputs::Supervised { .. } | LossInputs::Policy { .. } => &self.target_tokens,
        }
    }

    /// Checks that every list fits the input and that every number is finite.
    pub fn validate(&self) -> Result<(), DatumError> {
        let expected = self.positions();
        let length = |name, actual| {
            if actual == expected { Ok(()) } else { Err(DatumError::Length { name, actual, expected }) }
        };
        let finite = |name, values: &[f32]| match values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(index) => Err(DatumError::NotFinite { name, index, value: values[index] }),
        };
        length("target_tokens", self.target_tokens.len())?;
        match &self.loss_inputs {
            LossInputs::Supervised { weights } => {
                length("weights", weights.len())?;
                finite("weights", weights)
            }
            LossInputs::SoftTargets { width, tokens, weights } => {
                let fits = |length: usize| *width > 0 && Some(length) == expected.checked_mul(*width);
                if !(fits(tokens.len()) && fits(weights.len())) {
                    let (tokens, weights) = (tokens.len(), weights.len());
                    return Err(DatumError::Width { tokens, weights, width: *width, positions: expected });
                }
                finite("weights", weights)
            }
            LossInputs::Policy { logprobs, advantages, mask } => {
                for (name, values) in [("logprobs", logprobs), ("advantages", advantages), ("mask", mask)] {
                    length(name, values.len())?;
                    finite(name, values)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datum(logprobs: Vec<f32>) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1]), Chunk::Image { digest: "a".into(), expected_tokens: 2 }],
            target_tokens: vec![0, 0, 7],
            loss_inputs: LossInputs::Policy { logprobs, advantages: vec![0.0; 3], mask: vec![0.0, 0.0, 1.0] },
        }
    }

    #[test]
    fn an_image_counts_its_positions() {
        assert_eq!(datum(vec![0.0; 3]).validate(), Ok(()));
        assert_eq!(
            datum(vec![0.0; 2]).validate(),
            Err(DatumError::Length { name: "logprobs", actual: 2, expected: 3 })
        );
    }

    #[test]
    fn soft_targets_are_as_many_for_each_position() {
        let soft = |width: usize, entries: usize| Datum {
            loss_inputs: LossInputs::SoftTargets { width, tokens: vec![1; entries], weights: vec![0.5; entries] },
            ..datum(vec![])
        };
        assert_eq!(soft(2, 6).validate(), Ok(()));
        assert_eq!((soft(2, 6).targets_per_position(), soft(2, 6).targets().len()), (2, 6));
        for (width, entries) in [(2, 5), (0, 0), (usize::MAX, 6)] {
            let error = DatumError::Width { tokens: entries, weights: entries, width, positions: 3 };
            assert_eq!(soft(width, entries).validate(), Err(error));
        }
    }

    #[test]
    fn a_logprob_that_is_not_a_number_is_refused() {
        let error = datum(vec![0.0, f32::NEG_INFINITY, 0.0]).validate().unwrap_err();
        assert_eq!(error, DatumError::NotFinite { name: "logprobs", index: 1, value: f32::NEG_INFINITY });
    }
}
