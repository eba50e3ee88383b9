//! Scores of conversations that are held out, read in parts so that their number costs no memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fulgurite_backends::Learner;
use fulgurite_renderers::Tokenizer;
use fulgurite_types::{Datum, LossInputs};
use serde_json::{Map, Value};

use super::evaluator::{Evaluation, Evaluator};
use super::validation_scores::{VALIDATION_BPB, VALIDATION_NLL};
use crate::conversations::{Example, Sequences};
use crate::objectives::{TokenScores, data_of};
use crate::{LossReduction, Reporter, TrainError};

/// Scores a run on conversations.
pub(crate) struct ConversationEvaluator {
    pub(crate) learner: Arc<dyn Learner>,
    pub(crate) conversations: Arc<dyn Sequences>,
    /// Which of them.
    pub(crate) numbers: Vec<u64>,
    pub(crate) reduction: LossReduction,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Conversations that are read together.
    pub(crate) batch_size: usize,
    /// Updates between scores.
    pub(crate) every: u64,
}

#[async_trait]
impl Evaluator for ConversationEvaluator {
    fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.every.max(1))
    }

    async fn held_out(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        if self.numbers.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let (mut scores, mut nats, mut weight) = (TokenScores::default(), 0.0, 0.0);
        let mut costs = Vec::with_capacity(self.numbers.len());
        for numbers in self.numbers.chunks(self.batch_size) {
            let examples = self.conversations.read(numbers).await?;
            let data = data_of(&examples, self.reduction, None)?;
            let logprobs = self.learner.forward(Arc::clone(&data)).await?;
            scores.add(&data, &logprobs, &self.tokenizer);
            let part = part_weight(&examples, self.reduction);
            nats += part * nll(&data, &logprobs);
            let mut first = 0;
            for example in &examples {
                let own = first..first + example.sequences.len();
                costs.push(mean_nll(&data[own.clone()], &logprobs[own.clone()]));
                first = own.end;
            }
            weight += part;
        }
        let mut metrics = Map::new();
        metrics.insert(VALIDATION_NLL.to_owned(), (nats / weight).into());
        if let Some(bits) = scores.bits_per_byte() {
            metrics.insert(VALIDATION_BPB.to_owned(), bits.into());
        }
        let accuracy = scores.likely as f64 / scores.tokens.max(1) as f64;
        metrics.insert("test/accuracy".to_owned(), accuracy.into());
        Ok(Some(Evaluation { metrics, uses: Vec::new(), seconds: started.elapsed().as_secs_f64(), costs }))
    }

    async fn last(&mut self, _: u64, _: &mut dyn Reporter) -> Result<Option<Evaluation>, TrainError> {
        Ok(None)
    }

    fn is_met(&self, _: &[&Map<String, Value>]) -> bool {
        false
    }
}

/// What the mean of a part counts in the mean of all.
fn part_weight(examples: &[Example], reduction: LossReduction) -> f64 {
    match reduction {
        LossReduction::PerConversation => examples.len() as f64,
        LossReduction::PerToken => {
            let weights =
                examples.iter().flat_map(|example| &example.sequences).flat_map(|one| one.weights.iter().skip(1));
            weights.map(|weight| f64::from(*weight)).sum()
        }
    }
}

/// The mean negative logprob of the trained tokens of one conversation, whatever its weights add up to.
fn mean_nll(data: &[Datum], logprobs: &[Vec<f32>]) -> f64 {
    let weight = |datum: &Datum| match &datum.loss_inputs {
        LossInputs::Supervised { weights } => weights.iter().map(|weight| f64::from(*weight)).sum(),
        LossInputs::Policy { .. } | LossInputs::SoftTargets { .. } => 0.0,
    };
    let weight: f64 = data.iter().map(weight).sum();
    if weight > 0.0 { nll(data, logprobs) / weight } else { 0.0 }
}

/// The weighted negative logprobs of datums whose weights add up to 1.
fn nll(data: &[Datum], logprobs: &[Vec<f32>]) -> f64 {
    let of = |(datum, logprobs): (&Datum, &Vec<f32>)| match &datum.loss_inputs {
        LossInputs::Supervised { weights } => {
            let counted = weights.iter().zip(logprobs).filter(|(weight, _)| **weight > 0.0);
            counted.map(|(weight, logprob)| -f64::from(*weight) * f64::from(*logprob)).sum::<f64>()
        }
        LossInputs::Policy { .. } | LossInputs::SoftTargets { .. } => 0.0,
    };
    data.iter().zip(logprobs).map(of).sum()
}
