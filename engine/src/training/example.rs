//! A datum on its way through the learner, and what a pass finds of it.

use fulgurite_types::{Chunk, Datum, LossInputs};

use crate::passes::loss::TokenLoss;

/// A datum with the loss of each of its targets.
#[derive(Clone, Debug)]
pub(crate) struct Example<'a> {
    /// Its place in the call.
    pub(crate) index: usize,
    pub(crate) datum: &'a Datum,
    /// Of every target, as many for each position as the datum has.
    pub(crate) losses: Vec<TokenLoss>,
}

impl Example<'_> {
    pub(crate) fn positions(&self) -> usize {
        self.datum.positions()
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.datum
            .model_input
            .iter()
            .flat_map(|chunk| match chunk {
                Chunk::Tokens(tokens) => tokens.as_slice(),
                Chunk::Image { .. } => &[], // refused before an example is made
            })
            .copied()
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
    /// Summed over the targets that take part in the loss, of a pass with a gradient.
    pub(crate) entropy: f64,
    pub(crate) logprobs: Vec<f32>,
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
