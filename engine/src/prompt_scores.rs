use crate::choice::likeliest;
use crate::forward::{Activations, PackedRows, forward};
use crate::head::{HeadScratch, Prediction, for_each_logits};
use crate::kernels::LogSoftmax;
use crate::loss::TokenLoss;
use crate::published::WeightsSnapshot;

/// How likely the tokens of a prompt were, each after those before it. The first has nothing before it, so every list
/// begins with the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PromptScores {
    /// The logprob of each token.
    pub(crate) logprobs: Vec<f32>,
    /// The likeliest tokens in the place of each, likeliest first.
    pub(crate) likeliest: Vec<Vec<(u32, f32)>>,
    /// The logprobs of the tokens that were named for each place.
    pub(crate) named: Vec<Vec<f32>>,
}

impl WeightsSnapshot {
    /// Scores a prompt of known tokens, no longer than the context. `alternatives` of the likeliest tokens are told for
    /// each place, and the logprobs of the tokens in `named`, which has a row for each place or none at all. Takes as
    /// long as reading the prompt does.
    pub(crate) fn score_prompt(&self, prompt: &[u32], alternatives: usize, named: &[Vec<u32>]) -> PromptScores {
        let weights = &self.0.weights;
        let mut rows = PackedRows::default();
        rows.push(prompt.iter().copied().take(prompt.len().saturating_sub(1)));
        let mut activations = Activations::default();
        if rows.len() > 0 {
            forward(weights, &rows, &mut activations);
        }
        let targets = prompt.iter().skip(1).enumerate();
        let predictions: Vec<Prediction> =
            targets.map(|(row, &target)| Prediction { row, target, loss: TokenLoss::Nothing, logprob: 0.0 }).collect();
        let mut scores = PromptScores::default();
        let see = |prediction: &Prediction, logits: &[f32]| {
            let softmax = LogSoftmax::new(logits);
            let logprob = |token: u32| softmax.logprob(logits[token as usize]);
            scores.logprobs.push(logprob(prediction.target));
            if alternatives > 0 {
                let tokens = likeliest(logits, alternatives);
                scores.likeliest.push(tokens.into_iter().map(|token| (token, logprob(token))).collect());
            }
            if let Some(tokens) = named.get(prediction.row) {
                scores.named.push(tokens.iter().map(|&token| logprob(token)).collect());
            }
        };
        for_each_logits(weights, &activations.normed_output, &predictions, &mut HeadScratch::default(), see);
        scores
    }
}
