//! Scores of conversations that are held out: what the model makes of each of their tokens.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fulgurite_backends::Learner;
use fulgurite_types::{Datum, LossInputs};
use serde_json::{Map, Value};

use super::evaluator::{Evaluation, Evaluator};
use crate::{Reporter, TrainError};

/// Share of the trained tokens of validation rows that have more than half of the model's probability.
pub(crate) const ACCURACY: &str = "test/accuracy";
/// Mean negative logprob of those tokens, in nats.
const NLL: &str = "test/nll";

/// Scores a run on rows.
pub(crate) struct RowEvaluator {
    pub(crate) learner: Arc<dyn Learner>,
    pub(crate) rows: Arc<[Datum]>,
    /// Updates between scores.
    pub(crate) every: u64,
    /// The accuracy that stops the run.
    pub(crate) wanted: Option<f64>,
}

#[async_trait]
impl Evaluator for RowEvaluator {
    fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.every.max(1))
    }

    async fn held_out(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let logprobs = self.learner.forward(Arc::clone(&self.rows)).await?;
        let mut metrics = Map::new();
        let (accuracy, nll) = scores(&self.rows, &logprobs);
        metrics.insert(ACCURACY.to_owned(), accuracy.into());
        metrics.insert(NLL.to_owned(), nll.into());
        Ok(Some(Evaluation { metrics, uses: Vec::new(), seconds: started.elapsed().as_secs_f64(), costs: Vec::new() }))
    }

    fn is_met(&self, history: &[&Map<String, Value>]) -> bool {
        let accuracy = history.iter().rev().find_map(|metrics| metrics.get(ACCURACY)?.as_f64());
        accuracy.zip(self.wanted).is_some_and(|(is, wanted)| is >= wanted)
    }
}

/// The share of trained tokens with more than half of the probability, each of which is the model's first choice, and the
/// mean negative logprob of all.
fn scores(rows: &[Datum], logprobs: &[Vec<f32>]) -> (f64, f64) {
    let (mut right, mut all, mut nats) = (0usize, 0usize, 0.0);
    for (datum, logprobs) in rows.iter().zip(logprobs) {
        let LossInputs::Supervised { weights } = &datum.loss_inputs else { continue };
        for (_, logprob) in weights.iter().zip(logprobs).filter(|(weight, _)| **weight != 0.0) {
            all += 1;
            right += usize::from(*logprob > -std::f32::consts::LN_2);
            nats -= f64::from(*logprob);
        }
    }
    (right as f64 / all.max(1) as f64, nats / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_without_weight_are_not_scored() {
        let row = Datum {
            model_input: vec![fulgurite_types::Chunk::Tokens(vec![0; 4])],
            target_tokens: vec![0; 4],
            loss_inputs: LossInputs::Supervised { weights: vec![0.0, 1.0, 1.0, 0.5] },
        };
        let (accuracy, nll) = scores(&[row], &[vec![-9.0, -0.5, -1.0, -0.75]]);
        assert_eq!((accuracy, nll), (1.0 / 3.0, 0.75));
        assert_eq!(scores(&[], &[]), (0.0, 0.0));
    }
}
