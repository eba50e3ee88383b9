//! Cross entropy on conversations, as a mean of conversations or of tokens, and bits per byte.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_adapters::{AdapterError, Reduction, supervised_datum};
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_renderers::{Tokenizer, WeightedTokens};
use fulgurite_types::{Datum, LossInputs};
use serde_json::Map;

use super::objective::{Lesson, Measurement, Objective, Pass};
use crate::conversations::Example;
use crate::options::LossReduction;
use crate::sources::{ConversationBatch, DataPosition};
use crate::{Reporter, TrainError};

/// Supervised fine-tuning.
pub(crate) struct ConversationLoss {
    pub(crate) reduction: LossReduction,
    /// Tokens of a sequence that conversations are put into; `None` leaves each in its own.
    pub(crate) pack_into: Option<usize>,
    pub(crate) tokenizer: Arc<Tokenizer>,
}

#[async_trait]
impl Objective<ConversationBatch> for ConversationLoss {
    async fn lesson(
        &mut self,
        _: u64,
        batch: ConversationBatch,
        _: &mut DataPosition,
        _: &dyn Learner,
        _: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let mut metrics = Map::new();
        metrics.insert("epoch".to_owned(), batch.epoch.into());
        metrics.insert("num_conversations".to_owned(), batch.examples.len().into());
        for (cause, rows) in &batch.skipped {
            metrics.insert(format!("data/skipped/{cause}"), (*rows).into());
        }
        let sequences = batch.examples.iter().flat_map(|example| &example.sequences);
        let weights = sequences.map(target_weight).sum::<f64>();
        metrics.insert("num_loss_tokens".to_owned(), weights.into());
        let data = data_of(&batch.examples, self.reduction, self.pack_into)?;
        metrics.insert("num_sequences".to_owned(), data.len().into());
        metrics.insert("num_tokens".to_owned(), data.iter().map(Datum::positions).sum::<usize>().into());
        let substeps = Lesson::substeps_of((weights > 0.0).then_some(data), LossFunction::CrossEntropy);
        let uses = batch.examples.into_iter().flat_map(|example| example.uses).collect();
        Ok(Lesson { substeps, metrics, uses, ..Lesson::default() })
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        let mut scores = TokenScores::default();
        for pass in passes {
            scores.add(&pass.data, &pass.logprobs, &self.tokenizer);
        }
        let nll = passes.iter().map(|pass| pass.loss_sum).sum::<f64>();
        let mut metrics = vec![("train_mean_nll", nll)];
        metrics.extend(scores.bits_per_byte().map(|bits| ("train_mean_bpb", bits)));
        Ok(Measurement { metrics, trained_tokens: scores.tokens })
    }
}

/// What the targets of a sequence weigh together; its first token is none.
fn target_weight(sequence: &WeightedTokens) -> f64 {
    sequence.weights.iter().skip(1).map(|weight| f64::from(*weight)).sum()
}

/// Rows for the learner, whose weights add up to 1: the summed loss is the mean that the reduction names.
pub(crate) fn data_of(
    examples: &[Example],
    reduction: LossReduction,
    pack_into: Option<usize>,
) -> Result<Arc<[Datum]>, AdapterError> {
    let weight = |example: &Example| example.sequences.iter().map(target_weight).sum::<f64>();
    let all: f64 = examples.iter().map(weight).sum();
    let mut sequences: Vec<WeightedTokens> = Vec::new();
    for example in examples {
        let divisor = match reduction {
            LossReduction::PerConversation => weight(example) * examples.len() as f64,
            LossReduction::PerToken => all,
        };
        for WeightedTokens { tokens, weights } in &example.sequences {
            let share = |weight: &f32| if divisor > 0.0 { (f64::from(*weight) / divisor) as f32 } else { 0.0 };
            let weights: Vec<f32> = weights.iter().map(share).collect();
            sequences.push(WeightedTokens { tokens: tokens.clone(), weights });
        }
    }
    if let Some(most) = pack_into {
        sequences = packed(sequences, most);
    }
    let datum = |WeightedTokens { tokens, weights }| supervised_datum(&tokens, &weights, None, Reduction::None);
    sequences.into_iter().map(datum).collect()
}

/// Sequences put behind each other in their order, as long as they fit. The first token of each stays one that nothing
/// predicts.
fn packed(sequences: Vec<WeightedTokens>, most: usize) -> Vec<WeightedTokens> {
    let mut packed: Vec<WeightedTokens> = Vec::new();
    for mut sequence in sequences {
        if let Some(first) = sequence.weights.first_mut() {
            *first = 0.0;
        }
        match packed.last_mut().filter(|last| last.tokens.len() + sequence.tokens.len() <= most) {
            Some(last) => {
                last.tokens.append(&mut sequence.tokens);
                last.weights.append(&mut sequence.weights);
            }
            None => packed.push(sequence),
        }
    }
    packed
}

/// Sums over the trained tokens of datums, by which text is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TokenScores {
    /// Trained tokens.
    pub(crate) tokens: usize,
    /// Of them, those that have more than half of the probability.
    pub(crate) likely: usize,
    /// Negative logprobs of those that are text.
    nats: f64,
    /// Of the text that those are, each run of them by itself.
    bytes: usize,
}

impl TokenScores {
    /// Adds those of other datums.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.likely += other.likely;
        self.nats += other.nats;
        self.bytes += other.bytes;
    }

    pub(crate) fn add(&mut self, data: &[Datum], logprobs: &[Vec<f32>], tokenizer: &Tokenizer) {
        for (datum, logprobs) in data.iter().zip(logprobs) {
            let LossInputs::Supervised { weights } = &datum.loss_inputs else { continue };
            let mut run = Vec::new();
            for ((token, weight), logprob) in datum.target_tokens.iter().zip(weights).zip(logprobs) {
                let is_trained = *weight > 0.0;
                self.tokens += usize::from(is_trained);
                self.likely += usize::from(is_trained && *logprob > -std::f32::consts::LN_2);
                if is_trained && !tokenizer.is_control(*token) {
                    self.nats -= f64::from(*logprob);
                    run.push(*token);
                } else {
                    self.end_run(&mut run, tokenizer);
                }
            }
            self.end_run(&mut run, tokenizer);
        }
    }

    fn end_run(&mut self, run: &mut Vec<u32>, tokenizer: &Tokenizer) {
        if !run.is_empty() {
            self.bytes += tokenizer.decode(run).len();
            run.clear();
        }
    }

    /// What a byte of the text costs, in bits; `None` if there is none.
    pub(crate) fn bits_per_byte(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.nats / (std::f64::consts::LN_2 * self.bytes as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(weights: &[&[f32]]) -> Example {
        let sequence = |weights: &&[f32]| WeightedTokens { tokens: vec![1; weights.len()], weights: weights.to_vec() };
        Example { sequences: weights.iter().map(sequence).collect(), ..Example::default() }
    }

    fn weights(data: &[Datum]) -> Vec<Vec<f32>> {
        let weights = |datum: &Datum| match &datum.loss_inputs {
            LossInputs::Supervised { weights } => weights.clone(),
            LossInputs::Policy { .. } | LossInputs::SoftTargets { .. } => unreachable!(),
        };
        data.iter().map(weights).collect()
    }

    #[test]
    fn a_batch_is_a_mean_of_conversations_or_of_tokens() {
        // The first conversation is two sequences; the weight of a first token counts for nothing.
        let batch = [example(&[&[9.0, 1.0, 0.0], &[0.0, 1.0]]), example(&[&[0.0, 0.5, 0.5, 1.0]])];
        let per_conversation = weights(&data_of(&batch, LossReduction::PerConversation, None).unwrap());
        assert_eq!(per_conversation, [vec![0.25, 0.0], vec![0.25], vec![0.125, 0.125, 0.25]]);
        let per_token = weights(&data_of(&batch, LossReduction::PerToken, None).unwrap());
        assert_eq!(per_token, [vec![0.25, 0.0], vec![0.25], vec![0.125, 0.125, 0.25]]);
        let uneven = [example(&[&[0.0, 1.0, 1.0, 1.0]]), example(&[&[0.0, 1.0]])];
        let per_token = weights(&data_of(&uneven, LossReduction::PerToken, None).unwrap());
        assert_eq!(per_token, [vec![0.25; 3], vec![0.25]]);
    }

    #[test]
    fn packed_conversations_weigh_what_they_weighed_apart() {
        let batch = [example(&[&[9.0, 1.0]]), example(&[&[2.0, 1.0, 1.0]]), example(&[&[0.0, 1.0]])];
        for reduction in [LossReduction::PerConversation, LossReduction::PerToken] {
            let apart = data_of(&batch, reduction, None).unwrap();
            let packed = data_of(&batch, reduction, Some(5)).unwrap();
            assert_eq!(packed.iter().map(Datum::positions).collect::<Vec<_>>(), [4, 1], "five tokens, then two");
            let sum = |data: &[Datum]| weights(data).concat().iter().sum::<f32>();
            assert_eq!(sum(&packed), sum(&apart));
            assert_eq!(weights(&packed)[0][1], 0.0, "no conversation predicts the next one's beginning");
        }
        assert_eq!(data_of(&batch, LossReduction::PerToken, Some(1)).unwrap().len(), 3, "what does not fit is alone");
    }

    #[test]
    fn bits_per_byte_are_of_the_text_that_is_trained() {
        let directory = tempfile::tempdir().unwrap();
        let json = fulgurite_renderers::train_byte_level_tokenizer(["ab"], 259, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &json).unwrap();
        let tokenizer = Tokenizer::open(directory.path()).unwrap();
        let text = tokenizer.encode_ordinary("aé").unwrap();
        assert_eq!(text.len(), 3, "a byte is a token");
        let end = tokenizer.token_to_id("<|im_end|>").unwrap();
        let tokens = [&text[..1], &text[..], &[end]].concat();
        let datum = supervised_datum(&tokens, &[0.0, 1.0, 1.0, 1.0, 0.5], None, Reduction::None).unwrap();
        let mut scores = TokenScores::default();
        let bit = std::f32::consts::LN_2;
        scores.add(&[datum], &[vec![-bit, -2.0 * bit, -3.0 * bit, -0.1]], &tokenizer);
        assert_eq!((scores.tokens, scores.likely, scores.bytes), (4, 1, 3));
        assert!((scores.bits_per_byte().unwrap() - 2.0).abs() < 1e-6, "the end of the turn is no text");
        assert_eq!(TokenScores::default().bits_per_byte(), None);
    }
}
