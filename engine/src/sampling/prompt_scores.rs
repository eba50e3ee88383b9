use fulgurite_backends::{BackendError, PromptQuestions, PromptScores};
use fulgurite_types::SamplingParameters;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::kernels::LogSoftmax;
use crate::model::pass_sizes::SavedActivations;
use crate::passes::forward::{Activations, forward};
use crate::passes::head::{HeadScratch, Prediction, for_each_logits};
use crate::passes::loss::TokenLoss;
use crate::passes::packed_rows::PackedRows;
use crate::sampling::choice::{choose, likeliest, not_finite, uniform};
use crate::sampling::published::WeightsSnapshot;

impl WeightsSnapshot {
    /// Scores a prompt of known tokens, no longer than the context. Takes as long as reading the prompt does. Fails where
    /// tokens are to be drawn and the logits are not finite.
    pub(crate) fn score_prompt(
        &self,
        prompt: &[u32],
        questions: PromptQuestions<'_>,
    ) -> Result<PromptScores, BackendError> {
        let PromptQuestions { alternatives, named, draws, temperature, seed } = questions;
        let sampling = SamplingParameters { temperature, ..SamplingParameters::default() };
        let (mut generator, mut scratch) = (ChaCha8Rng::seed_from_u64(seed), Vec::new());
        let policy = &self.0.policy;
        let mut rows = PackedRows::default();
        rows.push(prompt.iter().copied().take(prompt.len().saturating_sub(1)));
        let mut activations = Activations::default();
        if rows.len() > 0 {
            forward(policy, &rows, SavedActivations::Nothing, &mut activations);
        }
        let targets = prompt.iter().skip(1).enumerate();
        let predictions: Vec<Prediction> =
            targets.map(|(row, &target)| Prediction::new(row, row, target, TokenLoss::Nothing)).collect();
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
            if draws > 0 {
                let draw = |_| {
                    let chosen = choose(logits, &sampling, uniform(&mut generator), 0, &mut scratch)?;
                    Some((chosen.token, chosen.logprob))
                };
                // All or none: the distribution is the same for each.
                scores.drawn.push((0..draws).map_while(draw).collect());
            }
        };
        for_each_logits(policy, &activations.normed_output, &predictions, &mut HeadScratch::default(), see);
        match scores.drawn.iter().all(|drawn| drawn.len() == draws) {
            true => Ok(scores),
            false => Err(not_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulgurite_backends::{LossFunction, PromptQuestions};
    use fulgurite_types::{Chunk, Datum, LossInputs, WeightsVersion};

    use crate::engine::create_model;
    use crate::test_models::tiny_config;
    use crate::training::learner::EmbeddedLearner;

    #[tokio::test]
    async fn a_prompt_is_scored_as_the_learner_scores_it() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("model");
        create_model(&directory, &tiny_config(), 1).unwrap();
        let learner = EmbeddedLearner::open(&directory, 1).unwrap();
        let prompt = [3, 1, 4, 1, 5];
        // Of the targets only one is trained; the others are reported all the same.
        let datum = Datum {
            model_input: vec![Chunk::Tokens(prompt[..4].to_vec())],
            target_tokens: prompt[1..].to_vec(),
            loss_inputs: LossInputs::Supervised { weights: vec![0.0, 0.0, 1.0, 0.0] },
        };
        let data: Arc<[Datum]> = [datum].into();
        let trained = learner.forward_backward_with_all_logprobs(data, LossFunction::CrossEntropy).await.unwrap();
        let named = [vec![1, 9], vec![4, 9], vec![1, 9], vec![5, 9]];
        let snapshot = learner.snapshot(WeightsVersion(0)).await.unwrap();
        let questions = PromptQuestions { alternatives: 2, named: &named, draws: 300, temperature: 1.0, seed: 5 };
        let scores = snapshot.score_prompt(&prompt, questions).unwrap();
        assert_eq!(scores.logprobs, trained.logprobs[0]);
        assert_eq!(scores.named.iter().map(|row| row[0]).collect::<Vec<_>>(), scores.logprobs);
        for (row, logprob) in scores.likeliest.iter().zip(&scores.logprobs) {
            assert!(row.len() == 2 && row[0].1 >= row[1].1 && row[0].1 >= *logprob);
        }
        // What is drawn is of the distribution: a token as often as it is likely, with the logprob that it has there.
        for (row, likeliest) in scores.drawn.iter().zip(&scores.likeliest) {
            let (token, logprob) = likeliest[0];
            let drawn: Vec<_> = row.iter().filter(|(drawn, _)| *drawn == token).collect();
            let (expected, spread) = (f64::from(logprob).exp() * 300.0, 300f64.sqrt());
            assert!((drawn.len() as f64 - expected).abs() < 3.0 * spread, "{} of {expected}", drawn.len());
            assert!(drawn.iter().all(|(_, trained)| *trained == logprob));
        }
        assert_eq!(snapshot.score_prompt(&prompt, questions).unwrap(), scores);
        let greedy = PromptQuestions { draws: 2, alternatives: 1, ..PromptQuestions::default() };
        let greedy = snapshot.score_prompt(&prompt, greedy).unwrap();
        for (row, likeliest) in greedy.drawn.iter().zip(&greedy.likeliest) {
            assert_eq!(*row, [(likeliest[0].0, 0.0); 2]);
        }
    }
}
