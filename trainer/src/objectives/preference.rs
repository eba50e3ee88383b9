//! Losses of comparisons: the chosen answer becomes more likely beside the rejected one, and both are held to a reference.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_adapters::{AdapterError, Reduction, supervised_datum};
use fulgurite_backends::{
    AnswerScore, ComparedAnswer, Comparison, Comparisons, ForwardBackward, Learner, LossFunction, PreferenceLoss,
    datum_score,
};
use fulgurite_renderers::WeightedTokens;
use fulgurite_types::{Datum, LossInputs};
use serde_json::Map;

use super::objective::{Lesson, LossPart, Measurement, Objective, Pass};
use super::preference_scores::PreferenceScores;
use super::reference::Reference;
use crate::conversations::{ComparedExample, scored_datum};
use crate::options::LossTerms;
use crate::sources::{ConversationBatch, DataPosition};
use crate::{Reporter, TrainError};

/// What comparisons are held against.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) reference: Reference,
    /// Names it, with what its weights are.
    pub(crate) name: String,
}

/// Learns from comparisons.
pub(crate) struct Preference {
    pub(crate) losses: LossTerms,
    /// What the likelihood of chosen answers counts beside it.
    pub(crate) sft_weight: f64,
    /// What a token counts behind the length of its comparison's shorter answer.
    pub(crate) length_alpha: f64,
    /// `None` for a loss without a reference.
    pub(crate) held: Option<Held>,
    /// Tokens of a sequence at most, where that is known.
    pub(crate) max_tokens: Option<usize>,
    /// Those of the current step.
    pub(crate) comparisons: Option<Arc<Comparisons>>,
}

#[async_trait]
impl Objective<ConversationBatch<ComparedExample>> for Preference {
    async fn lesson(
        &mut self,
        _: u64,
        batch: ConversationBatch<ComparedExample>,
        position: &mut DataPosition,
        learner: &dyn Learner,
        _: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let name = self.held.as_ref().map_or("", |held| held.name.as_str());
        if position.reference.is_empty() {
            position.reference = name.to_owned();
        }
        if position.reference != name {
            let (now, before) = (name.to_owned(), position.reference.clone());
            return Err(TrainError::ReferenceChanged { now, before });
        }
        let mut metrics = Map::new();
        metrics.insert("epoch".to_owned(), batch.epoch.into());
        metrics.insert("num_pairs".to_owned(), batch.examples.iter().filter(|one| one.answers() == 2).count().into());
        for (cause, rows) in &batch.skipped {
            metrics.insert(format!("data/skipped/{cause}"), (*rows).into());
        }
        let (data, mut list) = data_of(&batch.examples, self.losses.main, self.length_alpha)?;
        metrics.insert("num_sequences".to_owned(), data.len().into());
        metrics.insert("num_tokens".to_owned(), data.iter().map(Datum::positions).sum::<usize>().into());
        metrics.insert("num_loss_tokens".to_owned(), data.iter().map(trained).sum::<usize>().into());
        if let Some(held) = &self.held {
            fill_in(&mut list, &data, &held.reference.logprobs(learner, Arc::clone(&data)).await?);
        }
        let mut losses = self.losses.clone();
        let mut count = batch.examples.len();
        if let PreferenceLoss::Kto { baseline, .. } = &mut losses.main {
            count = batch.examples.iter().map(ComparedExample::answers).sum();
            *baseline = self.distance(&batch.examples, learner).await?;
            metrics.insert("kto_kl".to_owned(), (*baseline).into());
        }
        let scale = 1.0 / count.max(1) as f64;
        let likelihood_scale = match self.sft_weight > 0.0 {
            true => self.sft_weight / chosen_tokens(&list, &data).max(1) as f64,
            false => 0.0,
        };
        self.comparisons = Some(Arc::new(Comparisons { likelihood_scale, ..losses.comparisons(scale, list) }));
        let uses = batch.examples.into_iter().flat_map(|example| example.uses).collect();
        let substeps = Lesson::substeps_of([data], LossFunction::CrossEntropy);
        Ok(Lesson { substeps, metrics, uses, ..Lesson::default() })
    }

    /// Of the comparisons, in place of the part's token losses.
    async fn forward_backward(
        &mut self,
        part: &LossPart,
        learner: &dyn Learner,
    ) -> Result<ForwardBackward, TrainError> {
        match &self.comparisons {
            Some(comparisons) => {
                let data = Arc::clone(&part.data);
                Ok(learner.forward_backward_comparisons(data, Arc::clone(comparisons)).await?)
            }
            None => Ok(learner.forward_backward(Arc::clone(&part.data), part.loss).await?),
        }
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        let mut scores = PreferenceScores::default();
        let mut trained_tokens = 0;
        if let (Some(comparisons), [pass, ..]) = (&self.comparisons, passes) {
            scores.add(comparisons, &pass.data, &pass.logprobs);
            trained_tokens = pass.data.iter().map(trained).sum();
        }
        let key = match self.losses.main {
            PreferenceLoss::Dpo { .. }
            | PreferenceLoss::Hinge { .. }
            | PreferenceLoss::Robust { .. }
            | PreferenceLoss::ApoZero { .. }
            | PreferenceLoss::ApoDown { .. } => "dpo_loss",
            PreferenceLoss::Simpo { .. } => "simpo_loss",
            PreferenceLoss::Ipo { .. } => "ipo_loss",
            PreferenceLoss::Orpo { .. } => "orpo_loss",
            PreferenceLoss::BradleyTerry { .. } => "bradley_terry_loss",
            PreferenceLoss::Kto { .. } => "kto_loss",
        };
        let mut metrics = vec![(key, passes.iter().map(|pass| pass.loss_sum).sum())];
        metrics.extend(scores.entries());
        Ok(Measurement { metrics, trained_tokens })
    }
}

impl Preference {
    /// How far policy and reference are apart on answers to other prompts: KTO's baseline, at least 0. Each prompt is followed
    /// by an answer of the next row.
    async fn distance(&self, examples: &[ComparedExample], learner: &dyn Learner) -> Result<f64, TrainError> {
        let Some(held) = &self.held else { return Ok(0.0) };
        if examples.len() < 2 {
            return Ok(0.0);
        }
        let next = examples.iter().cycle().skip(1);
        let exchanged = examples.iter().zip(next).filter_map(|(one, other)| exchanged(one, other, self.max_tokens));
        let data: Result<Vec<Datum>, AdapterError> = exchanged.map(|sequence| datum(&sequence)).collect();
        let data: Arc<[Datum]> = data?.into();
        let ours = learner.forward(Arc::clone(&data)).await?;
        let theirs = held.reference.logprobs(learner, Arc::clone(&data)).await?;
        let difference = |((datum, ours), theirs): ((&Datum, &Vec<f32>), &Vec<f32>)| {
            datum_score(datum, ours).logprob - datum_score(datum, theirs).logprob
        };
        let sum: f64 = data.iter().zip(&ours).zip(&theirs).map(difference).sum();
        Ok((sum / data.len().max(1) as f64).max(0.0))
    }
}

/// The prompt of one row and an answer of another; `None` where nothing of the answer would be left.
fn exchanged(one: &ComparedExample, other: &ComparedExample, most: Option<usize>) -> Option<WeightedTokens> {
    let first = |example: &ComparedExample| {
        let answer = example.chosen.as_ref().or(example.rejected.as_ref())?;
        let sequence = answer.first()?.clone();
        let begin = sequence.weights.iter().position(|weight| *weight > 0.0)?;
        Some((sequence, begin))
    };
    let ((mut sequence, begin), (answer, from)) = (first(one)?, first(other)?);
    sequence.tokens.truncate(begin);
    sequence.weights.truncate(begin);
    sequence.tokens.extend_from_slice(&answer.tokens[from..]);
    sequence.weights.extend_from_slice(&answer.weights[from..]);
    if let Some(most) = most {
        sequence.tokens.truncate(most);
        sequence.weights.truncate(most);
    }
    (sequence.tokens.len() > begin.max(1)).then_some(sequence)
}

fn trained(datum: &Datum) -> usize {
    match &datum.loss_inputs {
        LossInputs::Supervised { weights } => weights.iter().filter(|weight| **weight != 0.0).count(),
        LossInputs::SoftTargets { .. } | LossInputs::Policy { .. } => 0,
    }
}

fn datum(sequence: &WeightedTokens) -> Result<Datum, AdapterError> {
    supervised_datum(&sequence.tokens, &sequence.weights, None, Reduction::None)
}

/// Trained tokens of the chosen answers.
fn chosen_tokens(list: &[Comparison], data: &[Datum]) -> usize {
    let chosen = list.iter().filter_map(|comparison| comparison.chosen.as_ref());
    chosen.flat_map(|answer| &data[answer.data.clone()]).map(trained).sum()
}

/// Trained tokens of an answer's sequences.
fn answer_length(sequences: &[WeightedTokens]) -> usize {
    sequences.iter().flat_map(|sequence| &sequence.weights).filter(|weight| **weight != 0.0).count()
}

/// The sequences of an answer, in which trained tokens behind the first `shared` count `alpha` times as much.
fn shortened(sequences: &[WeightedTokens], shared: usize, alpha: f64) -> Vec<WeightedTokens> {
    let mut sequences = sequences.to_vec();
    let weights = sequences.iter_mut().flat_map(|sequence| &mut sequence.weights);
    for weight in weights.filter(|weight| **weight != 0.0).skip(shared) {
        *weight *= alpha as f32;
    }
    sequences
}

/// Rows for the learner, of each comparison the chosen answer's before the rejected one's. Trained tokens behind the length of
/// the shorter answer count `length_alpha` times as much. A loss of scores has one row an answer, which is read at its last token.
pub(crate) fn data_of(
    examples: &[ComparedExample],
    loss: PreferenceLoss,
    length_alpha: f64,
) -> Result<(Arc<[Datum]>, Vec<Comparison>), AdapterError> {
    let (mut data, mut list) = (Vec::new(), Vec::with_capacity(examples.len()));
    for example in examples {
        let shared = match (&example.chosen, &example.rejected) {
            (Some(chosen), Some(rejected)) => answer_length(chosen).min(answer_length(rejected)),
            _ => usize::MAX,
        };
        let mut answer = |sequences: &Option<Vec<WeightedTokens>>| {
            let Some(sequences) = sequences else { return Ok(None) };
            let begin = data.len();
            if loss.is_of_scores() {
                // Where an answer is several sequences, the last one holds all of it.
                data.extend(sequences.last().map(|last| scored_datum(last.tokens.clone())));
                return Ok(Some(ComparedAnswer { data: begin..data.len(), reference: 0.0 }));
            }
            for sequence in &shortened(sequences, shared, length_alpha) {
                data.push(datum(sequence)?);
            }
            Ok::<_, AdapterError>(Some(ComparedAnswer { data: begin..data.len(), reference: 0.0 }))
        };
        let chosen = answer(&example.chosen)?;
        list.push(Comparison { chosen, rejected: answer(&example.rejected)? });
    }
    Ok((data.into(), list))
}

/// Puts in what the answers' logprobs add up to under the reference.
pub(crate) fn fill_in(list: &mut [Comparison], data: &[Datum], logprobs: &[Vec<f32>]) {
    for answer in list.iter_mut().flat_map(|one| [&mut one.chosen, &mut one.rejected]).flatten() {
        let scores = answer.data.clone().map(|index| datum_score(&data[index], &logprobs[index]));
        answer.reference = scores.map(|score: AnswerScore| score.logprob).sum();
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;

    const DPO: PreferenceLoss = PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 };

    fn sequence(prompt: usize, answer: &[u32]) -> WeightedTokens {
        let tokens = [vec![9; prompt], answer.to_vec()].concat();
        WeightedTokens { weights: [vec![0.0; prompt], vec![1.0; answer.len()]].concat(), tokens }
    }

    fn pair(prompt: usize, chosen: &[u32], rejected: &[u32]) -> ComparedExample {
        let answer = |answer: &[u32]| Some(vec![sequence(prompt, answer)]);
        ComparedExample { chosen: answer(chosen), rejected: answer(rejected), uses: Vec::new() }
    }

    #[test]
    fn datums_follow_each_other_and_know_their_reference() {
        let alone = ComparedExample { chosen: None, ..pair(2, &[], &[7]) };
        let (data, mut list) = data_of(&[pair(3, &[1, 2], &[3]), alone], DPO, 1.0).unwrap();
        assert_eq!(data.iter().map(Datum::positions).collect::<Vec<_>>(), [4, 3, 2]);
        fill_in(&mut list, &data, &[vec![-9.0, -9.0, -1.0, -2.0], vec![-9.0, -9.0, -4.0], vec![-9.0, -5.0]]);
        let reference = |answer: &Option<ComparedAnswer>| answer.as_ref().map(|answer| answer.reference);
        let known: Vec<_> = list.iter().map(|one| (reference(&one.chosen), reference(&one.rejected))).collect();
        assert_eq!(known, [(Some(-3.0), Some(-4.0)), (None, Some(-5.0))]);
    }

    #[test]
    fn a_score_is_read_at_the_last_token_of_the_last_sequence() {
        let mut example = pair(2, &[1, 2], &[3]);
        example.chosen.as_mut().unwrap().push(sequence(3, &[4, 5]));
        let (data, list) = data_of(&[example], PreferenceLoss::BradleyTerry { centering: 0.0 }, 1.0).unwrap();
        assert_eq!(list.len(), 1);
        let rows: Vec<_> = data.iter().map(|datum| (datum.model_input.clone(), datum.loss_inputs.clone())).collect();
        let row = |tokens: &[u32], weights: &[f32]| {
            (vec![Chunk::Tokens(tokens.to_vec())], LossInputs::Supervised { weights: weights.to_vec() })
        };
        assert_eq!(rows, [row(&[9, 9, 9, 4, 5], &[0.0, 0.0, 0.0, 0.0, 1.0]), row(&[9, 9, 3], &[0.0, 0.0, 1.0])]);
        data.iter().for_each(|datum| datum.validate().unwrap());
    }

    #[test]
    fn tokens_behind_the_shorter_answer_count_less() {
        let (data, _) = data_of(&[pair(2, &[1, 2, 3], &[4])], DPO, 0.25).unwrap();
        let weights: Vec<_> = data
            .iter()
            .map(|datum| match &datum.loss_inputs {
                LossInputs::Supervised { weights } => weights.clone(),
                LossInputs::SoftTargets { .. } | LossInputs::Policy { .. } => unreachable!(),
            })
            .collect();
        assert_eq!(weights, [vec![0.0, 1.0, 0.25, 0.25], vec![0.0, 1.0]]);
    }

    #[test]
    fn a_prompt_is_followed_by_the_answer_to_another() {
        let (one, other) = (pair(3, &[1, 2], &[3]), pair(2, &[4, 5], &[6]));
        let made = exchanged(&one, &other, None).unwrap();
        assert_eq!((made.tokens, made.weights), (vec![9, 9, 9, 4, 5], vec![0.0, 0.0, 0.0, 1.0, 1.0]));
        assert_eq!(exchanged(&one, &other, Some(4)).unwrap().tokens, [9, 9, 9, 4]);
        assert!(exchanged(&one, &other, Some(3)).is_none(), "nothing of the answer is left");
    }
}
