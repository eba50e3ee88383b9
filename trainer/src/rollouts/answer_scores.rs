//! Scores of answers by a model whose head is a score.

use std::sync::Arc;

use fulgurite_backends::Learner;
use fulgurite_renderers::{Renderer, TrainOnWhat, WeightedTokens};
use fulgurite_types::{Datum, Message};

use crate::TrainError;
use crate::conversations::scored_datum;

/// A model that was trained by `objective = "reward_model"` with `preference.head = "score"`.
#[derive(Clone)]
pub struct AnswerScores {
    /// Has the model's scores for logprobs; nothing of it is trained.
    pub model: Arc<dyn Learner>,
    /// Writes the conversations that are scored, as those that it was trained on.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens of a conversation at most, where that is known.
    pub context_length: Option<usize>,
}

impl AnswerScores {
    /// The score of each of some answers to a prompt. A conversation that is too long for the model loses its beginning.
    ///
    /// # Errors
    /// If one cannot be written, or the model fails.
    pub(crate) async fn of(&self, prompt: &[Message], answers: &[&str]) -> Result<Vec<f64>, TrainError> {
        if answers.is_empty() {
            return Ok(Vec::new());
        }
        let data = answers.iter().map(|answer| self.datum(prompt, answer)).collect::<Result<Vec<_>, _>>()?;
        let scores = self.model.forward(data.into()).await?;
        Ok(scores.iter().map(|of_answer| of_answer.last().map_or(0.0, |score| f64::from(*score))).collect())
    }

    fn datum(&self, prompt: &[Message], answer: &str) -> Result<Datum, TrainError> {
        let messages = [prompt, &[Message::text("assistant", answer)]].concat();
        let marks = (1..=messages.len()).map(|place| place == messages.len());
        let trained = TrainOnWhat::Customized(marks.collect());
        let last = self.renderer.render_supervised(&messages, &[], &trained)?.pop();
        let WeightedTokens { mut tokens, .. } = last.unwrap_or_default();
        if let Some(most) = self.context_length.filter(|most| tokens.len() > *most) {
            tracing::warn!(
                tokens = tokens.len(),
                most,
                "a conversation is too long for the judge, and loses its beginning"
            );
            tokens.drain(..tokens.len() - most);
        }
        Ok(scored_datum(tokens))
    }
}
