//! Cross entropy on conversations against the likeliest tokens of a teacher, rather than against those that are there.

use async_trait::async_trait;
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_types::{Chunk, Datum, LossInputs};
use futures::{StreamExt, TryStreamExt, stream};

use super::conversation_loss::ConversationLoss;
use super::objective::{Lesson, Measurement, Objective, Part, Pass};
use super::policy::{CONCURRENCY, Teachers};
use crate::sources::{ConversationBatch, DataPosition};
use crate::{Reporter, TrainError};

/// Off-policy distillation: what is trained of conversations is what a teacher would say in each place.
pub(crate) struct SoftTargetLoss {
    /// Makes rows of conversations, and says what each of their tokens weighs.
    pub(crate) conversations: ConversationLoss,
    pub(crate) teachers: Teachers,
    /// Tokens that a place is taught.
    pub(crate) top_k: usize,
}

#[async_trait]
impl Objective<ConversationBatch> for SoftTargetLoss {
    async fn lesson(
        &mut self,
        step: u64,
        batch: ConversationBatch,
        position: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let mut lesson = self.conversations.lesson(step, batch, position, learner, reporter).await?;
        for part in lesson.substeps.iter_mut().flatten() {
            let rows = part.data.iter().map(|row| self.taught(row.clone())).collect::<Vec<_>>();
            let data: Vec<Datum> = stream::iter(rows).buffered(CONCURRENCY).try_collect().await?;
            *part = Part { data: data.into(), loss: LossFunction::CrossEntropy };
        }
        Ok(lesson)
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        let rows = || passes.iter().flat_map(|pass| pass.data.iter());
        let cross_entropy: f64 = passes.iter().map(|pass| pass.loss_sum).sum();
        let (entropy, trained_tokens) = rows()
            .map(target_entropy)
            .fold((0.0, 0), |(sum, count), (entropy, targets)| (sum + entropy, count + targets));
        let metrics = vec![
            ("teacher_cross_entropy", cross_entropy),
            ("teacher_entropy", entropy),
            ("teacher_forward_kl", cross_entropy - entropy),
        ];
        Ok(Measurement { metrics, trained_tokens })
    }
}

impl SoftTargetLoss {
    /// A row with the teacher's likeliest tokens in the place of its targets.
    async fn taught(&self, row: Datum) -> Result<Datum, TrainError> {
        let LossInputs::Supervised { weights } = &row.loss_inputs else { return Ok(row) };
        let mut tokens = Vec::with_capacity(row.positions() + 1);
        for chunk in &row.model_input {
            match chunk {
                Chunk::Tokens(chunk) => tokens.extend(chunk),
                Chunk::Image { .. } => {
                    return Err(TrainError::TeacherOfImages { name: self.teachers.only()?.to_owned() });
                }
            }
        }
        tokens.extend(row.target_tokens.last());
        let scores = self.teachers.score(self.teachers.only()?, &tokens, self.top_k).await?;
        let vocabulary = self.conversations.tokenizer.vocabulary_size();
        let is_known = |token: u32| (token as usize) < vocabulary;
        let loss_inputs = soft_targets(weights, &scores.likeliest, self.top_k, is_known).ok_or_else(|| {
            TrainError::TeacherWithoutTargets { name: self.teachers.only().unwrap_or_default().to_owned() }
        })?;
        Ok(Datum { loss_inputs, ..row })
    }
}

/// The likeliest tokens of each place, their probabilities divided by their sum and multiplied by the place's weight. `None` if a
/// place that has a weight has no token, or logprobs that are no numbers.
fn soft_targets(
    weights: &[f32],
    likeliest: &[Vec<(u32, f32)>],
    width: usize,
    is_known: impl Fn(u32) -> bool,
) -> Option<LossInputs> {
    let (mut tokens, mut shares) = (Vec::new(), Vec::new());
    if likeliest.len() != weights.len() {
        return None;
    }
    for (weight, row) in weights.iter().zip(likeliest) {
        let known = row.iter().copied().filter(|(token, _)| is_known(*token)).take(width);
        let known: Vec<(u32, f32)> = if *weight == 0.0 { Vec::new() } else { known.collect() };
        let greatest = known.iter().map(|(_, logprob)| *logprob).fold(f32::NEG_INFINITY, f32::max);
        if *weight != 0.0 && !greatest.is_finite() {
            return None;
        }
        let probability = |logprob: f32| f64::from(logprob - greatest).exp();
        let sum: f64 = known.iter().map(|(_, logprob)| probability(*logprob)).sum();
        for slot in 0..width {
            let (token, share) = known.get(slot).map_or((0, 0.0), |(token, logprob)| {
                (*token, (f64::from(*weight) * probability(*logprob) / sum) as f32)
            });
            tokens.push(token);
            shares.push(share);
        }
    }
    Some(LossInputs::SoftTargets { width, tokens, weights: shares })
}

/// The entropy of a row's targets, each place times its weight; and how many places have one.
fn target_entropy(row: &Datum) -> (f64, usize) {
    let LossInputs::SoftTargets { width, weights, .. } = &row.loss_inputs else { return (0.0, 0) };
    let mut all = (0.0, 0);
    for place in weights.chunks_exact(*width) {
        let sum: f64 = place.iter().map(|weight| f64::from(*weight)).sum();
        let surprise = |weight: &f32| {
            let weight = f64::from(*weight);
            if weight > 0.0 { -weight * (weight / sum).ln() } else { 0.0 }
        };
        all.0 += place.iter().map(surprise).sum::<f64>();
        all.1 += usize::from(sum > 0.0);
    }
    all
}

/// Refuses a teacher whose host does not tell so many likely tokens of a prompt.
pub(crate) async fn check_teacher(teachers: &Teachers, top_k: usize) -> Result<(), TrainError> {
    let name = teachers.only()?;
    let most = teachers.likeliest_told(name).await?;
    if top_k > most {
        let message = format!("is {top_k}, but the teacher `{name}` tells {most} of the likeliest tokens at most");
        return Err(TrainError::Option { key: "[trainer] distillation.top_k".to_owned(), message });
    }
    teachers.probe(name, top_k).await
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::objectives::policy::vectors::{close, floats, vectors};

    #[test]
    fn pytorchs_targets_and_their_entropy() {
        let case = &vectors("torch/distillation.json")["soft_targets"];
        let rows = |key: &str| case[key].as_array().unwrap().clone();
        let row = |(tokens, logprobs): (&Value, &Value)| {
            floats(tokens).into_iter().map(|token| token as u32).zip(floats(logprobs)).collect()
        };
        let likeliest: Vec<Vec<(u32, f32)>> = rows("tokens").iter().zip(&rows("teacher")).map(row).collect();
        let targets = soft_targets(&floats(&case["weights"]), &likeliest, 3, |_| true).unwrap();
        let LossInputs::SoftTargets { weights, .. } = &targets else { unreachable!() };
        let expected: Vec<f32> = rows("targets").iter().flat_map(floats).collect();
        assert_eq!(weights.len(), expected.len());
        weights.iter().zip(&expected).for_each(|(weight, expected)| close((*weight).into(), (*expected).into()));
        let row = Datum { model_input: vec![], target_tokens: vec![], loss_inputs: targets };
        let (entropy, places) = target_entropy(&row);
        close(entropy, case["entropy"].as_f64().unwrap());
        assert_eq!(places, 3, "one has no weight");
    }

    #[test]
    fn slots_without_a_token_weigh_nothing_and_a_place_without_one_is_refused() {
        let likeliest = vec![vec![(9, -0.5), (1, -1.0)], vec![(2, -1.0)]];
        let made = soft_targets(&[1.0, 0.0], &likeliest, 2, |token| token < 5).unwrap();
        let expected =
            LossInputs::SoftTargets { width: 2, tokens: vec![1, 0, 0, 0], weights: vec![1.0, 0.0, 0.0, 0.0] };
        assert_eq!(made, expected);
        assert_eq!(soft_targets(&[1.0, 1.0], &likeliest, 2, |token| token < 2), None);
        assert_eq!(soft_targets(&[1.0], &likeliest, 2, |_| true), None);
    }
}
