//! Scores of conversations that are held out.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::Learner;
use fulgurite_renderers::Tokenizer;
use fulgurite_types::{Datum, LossInputs};
use serde_json::{Map, Value};

use super::evaluator::DataScores;
use crate::conversations::Example;
use crate::objectives::{TokenScores, data_of};
use crate::scores::{VALIDATION_BPB, VALIDATION_NLL};
use crate::{LossReduction, TrainError};

/// What conversations cost a model.
#[derive(Clone)]
pub(crate) struct ConversationScores {
    reduction: LossReduction,
    tokenizer: Arc<Tokenizer>,
    tokens: TokenScores,
    /// Of all parts, each by its weight.
    nats: f64,
    weight: f64,
    /// What a token of each conversation costs.
    costs: Vec<f64>,
}

impl ConversationScores {
    pub(crate) fn new(reduction: LossReduction, tokenizer: Arc<Tokenizer>) -> Self {
        Self { reduction, tokenizer, tokens: TokenScores::default(), nats: 0.0, weight: 0.0, costs: Vec::new() }
    }
}

#[async_trait]
impl DataScores for ConversationScores {
    type Item = Example;

    async fn add(&mut self, examples: Vec<Example>, learner: &dyn Learner) -> Result<(), TrainError> {
        let data = data_of(&examples, self.reduction, None)?;
        let logprobs = learner.forward(Arc::clone(&data)).await?;
        self.tokens.add(&data, &logprobs, &self.tokenizer);
        let part = part_weight(&examples, self.reduction);
        self.nats += part * nll(&data, &logprobs);
        self.weight += part;
        let mut first = 0;
        for example in &examples {
            let own = first..first + example.sequences.len();
            self.costs.push(mean_nll(&data[own.clone()], &logprobs[own.clone()]));
            first = own.end;
        }
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.tokens.merge(&other.tokens);
        self.nats += other.nats;
        self.weight += other.weight;
        self.costs.extend(other.costs);
    }

    fn into_metrics(self) -> (Map<String, Value>, Vec<f64>) {
        let mut metrics = Map::new();
        metrics.insert(VALIDATION_NLL.to_owned(), (self.nats / self.weight).into());
        if let Some(bits) = self.tokens.bits_per_byte() {
            metrics.insert(VALIDATION_BPB.to_owned(), bits.into());
        }
        let accuracy = self.tokens.likely as f64 / self.tokens.tokens.max(1) as f64;
        metrics.insert("test/accuracy".to_owned(), accuracy.into());
        (metrics, self.costs)
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
