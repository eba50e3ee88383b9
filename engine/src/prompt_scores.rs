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
        let policy = &self.0.policy;
        let mut rows = PackedRows::default();
        rows.push(prompt.iter().copied().take(prompt.len().saturating_sub(1)));
        let mut activations = Activations::default();
        if rows.len() > 0 {
            forward(policy, &rows, &mut activations);
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
        for_each_logits(policy, &activations.normed_output, &predictions, &mut HeadScratch::default(), see);
        scores
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulgurite_backends::{Chunk, Datum, LossFunction, LossInputs, WeightsVersion};

    use crate::test_models::tiny_config;
    use crate::{EmbeddedLearner, create_model};

    #[tokio::test]
    async fn a_prompt_is_scored_as_the_learner_scores_it() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("model");
        create_model(&directory, &tiny_config(), 1).unwrap();
        let learner = EmbeddedLearner::open(&directory, 1).unwrap();
        let prompt = [3, 1, 4, 1, 5];
        // Of the targets only one is trained; the others are told all the same.
        let datum = Datum {
            model_input: vec![Chunk::Tokens(prompt[..4].to_vec())],
            target_tokens: prompt[1..].to_vec(),
            loss_inputs: LossInputs::Supervised { weights: vec![0.0, 0.0, 1.0, 0.0] },
        };
        let data: Arc<[Datum]> = [datum].into();
        let told = learner.forward_backward_telling_all(data, LossFunction::CrossEntropy).await.unwrap();
        let named = [vec![1, 9], vec![4, 9], vec![1, 9], vec![5, 9]];
        let scores = learner.snapshot(WeightsVersion(0)).await.unwrap().score_prompt(&prompt, 2, &named);
        assert_eq!(scores.logprobs, told.logprobs[0]);
        assert_eq!(scores.named.iter().map(|row| row[0]).collect::<Vec<_>>(), scores.logprobs);
        for (row, logprob) in scores.likeliest.iter().zip(&scores.logprobs) {
            assert!(row.len() == 2 && row[0].1 >= row[1].1 && row[0].1 >= *logprob);
        }
    }
}
