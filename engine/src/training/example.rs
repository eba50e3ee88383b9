//! A datum on its way through the learner, and what a pass finds of it.

use fulgurite_types::{Chunk, Datum, LossInputs};

use crate::passes::loss::TokenLoss;
use crate::passes::packed_rows::common_start;

/// A datum with the loss of each of its targets.
#[derive(Clone, Debug)]
pub(crate) struct Example<'a> {
    /// Its place in the call.
    pub(crate) index: usize,
    pub(crate) datum: &'a Datum,
    /// Of its input.
    pub(crate) tokens: Vec<u32>,
    /// Of every target, as many for each position as the datum has.
    pub(crate) losses: Vec<TokenLoss>,
    /// What the logits are divided by.
    pub(crate) temperature: f32,
    /// What the entropy of the distribution that predicts a trained target is worth.
    pub(crate) entropy_weight: f32,
}

impl<'a> Example<'a> {
    pub(crate) fn new(index: usize, datum: &'a Datum, losses: Vec<TokenLoss>) -> Self {
        let chunks = datum.model_input.iter().flat_map(|chunk| match chunk {
            Chunk::Tokens(tokens) => tokens.as_slice(),
            Chunk::Image { .. } => &[], // refused before an example is made
        });
        Self { index, datum, tokens: chunks.copied().collect(), losses, temperature: 1.0, entropy_weight: 0.0 }
    }

    /// The same at another temperature.
    pub(crate) fn at_temperature(self, temperature: f32) -> Self {
        Self { temperature, ..self }
    }

    pub(crate) fn positions(&self) -> usize {
        self.tokens.len()
    }

    /// Positions that are computed for it behind another, whose beginning it shares.
    pub(crate) fn positions_behind(&self, other: Option<&Example<'_>>) -> usize {
        let shared = other.map_or(0, |other| common_start(&self.tokens, &other.tokens));
        self.positions() - shared
    }
}

/// Which targets' logprobs a pass reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedLogprobs {
    /// Of those that take part in the loss; the others' stand as 0.
    Trained,
    /// Of all.
    All,
}

/// What a shard found for one datum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) index: usize,
    pub(crate) loss: f64,
    pub(crate) logprobs: Vec<f32>,
    /// Of the targets that take part in the loss, of a pass with a gradient; all others stand as 0.
    pub(crate) entropies: Vec<f32>,
}

/// Of each target its weight or mask as the loss that a pass over whole answers multiplies.
pub(crate) fn trained_targets(datum: &Datum) -> Vec<TokenLoss> {
    let weights = match &datum.loss_inputs {
        LossInputs::Supervised { weights } | LossInputs::SoftTargets { weights, .. } => weights,
        LossInputs::Policy { mask, .. } => mask,
    };
    let of_weight = |&weight: &f32| if weight == 0.0 { TokenLoss::Nothing } else { TokenLoss::CrossEntropy { weight } };
    weights.iter().map(of_weight).collect()
}
