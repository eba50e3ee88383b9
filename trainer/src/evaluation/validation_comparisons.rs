//! Scores of comparisons that are held out, read in parts so that their number costs no memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fulgurite_backends::{Comparisons, Learner, PreferenceLoss};
use serde_json::{Map, Value};

use super::evaluator::{Evaluation, Evaluator};
use crate::conversations::{ComparedExample, Sequences};
use crate::objectives::{Held, PreferenceScores, compared_data, fill_in};
use crate::{Reporter, TrainError};

/// Scores a run on comparisons.
pub(crate) struct ComparisonEvaluator {
    pub(crate) learner: Arc<dyn Learner>,
    pub(crate) comparisons: Arc<dyn Sequences<ComparedExample>>,
    /// Which of them.
    pub(crate) numbers: Vec<u64>,
    pub(crate) loss: PreferenceLoss,
    pub(crate) held: Option<Held>,
    /// Comparisons that are read together.
    pub(crate) batch_size: usize,
    /// Updates between scores.
    pub(crate) every: u64,
}

#[async_trait]
impl Evaluator for ComparisonEvaluator {
    fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.every.max(1))
    }

    async fn held_out(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        if self.numbers.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let mut scores = PreferenceScores::default();
        for numbers in self.numbers.chunks(self.batch_size) {
            let (data, mut list) = compared_data(&self.comparisons.read(numbers).await?)?;
            let learner = self.learner.as_ref();
            if let Some(held) = &self.held {
                fill_in(&mut list, &data, &held.reference.logprobs(learner, Arc::clone(&data)).await?);
            }
            let logprobs = learner.forward(Arc::clone(&data)).await?;
            scores.add(&Comparisons { loss: self.loss, scale: 1.0, list }, &data, &logprobs);
        }
        let metrics: Map<String, Value> =
            scores.held_out().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
        Ok(Some(Evaluation { metrics, uses: Vec::new(), seconds: started.elapsed().as_secs_f64(), costs: Vec::new() }))
    }

    async fn last(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        Ok(None)
    }

    fn is_met(&self, _: &[&Map<String, Value>]) -> bool {
        false
    }
}
