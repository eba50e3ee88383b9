//! Cross entropy on conversations against the likeliest tokens of a teacher, rather than against those that are there.

use async_trait::async_trait;
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_types::{Chunk, Datum, LossInputs};
use futures::{StreamExt, TryStreamExt, stream};

use super::conversation_loss::ConversationLoss;
use super::objective::{Lesson, Measurement, Objective, Part, Pass};
use super::policy::{CONCURRENCY, Teachers};
use super::target_distributions::{soft_targets, target_entropy};
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
            *part = Part { data: data.into(), loss: LossFunction::CrossEntropy, is_beside: false };
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

/// Refuses a teacher whose host does not tell so many likely tokens of a prompt.
pub(crate) async fn check_teacher(teachers: &Teachers, top_k: usize) -> Result<(), TrainError> {
    teachers.check_likeliest(teachers.only()?, top_k).await
}
