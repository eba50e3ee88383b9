//! Cross entropy on conversations against the likeliest tokens of a teacher, rather than against those that are there.

use std::path::PathBuf;

use async_trait::async_trait;
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_types::{Chunk, Datum, LossInputs};
use futures::{StreamExt, TryStreamExt, stream};

use super::conversation_loss::ConversationLoss;
use super::objective::{Lesson, LossPart, Measurement, Objective, Pass};
use super::policy::{CONCURRENCY, Teachers};
use super::target_distributions::{soft_targets, target_entropy};
use crate::conversations::Likeliest;
use crate::sources::{ConversationBatch, DataPosition};
use crate::{Reporter, TrainError};

/// Off-policy distillation: what is trained of conversations is what a teacher would say in each place.
pub(crate) struct SoftTargetLoss {
    /// Makes rows of conversations, and says what each of their tokens weighs.
    pub(crate) conversations: ConversationLoss,
    pub(crate) from: TargetsFrom,
    /// Tokens that a place is taught.
    pub(crate) top_k: usize,
}

/// Where what a teacher would say comes from.
pub(crate) enum TargetsFrom {
    /// It is asked.
    Teacher(Box<Teachers>),
    /// It was written down, in a file of this name.
    File(PathBuf),
}

#[async_trait]
impl Objective<ConversationBatch> for SoftTargetLoss {
    async fn lesson(
        &mut self,
        step: u64,
        mut batch: ConversationBatch,
        position: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let written = batch.examples.iter_mut().flat_map(|example| std::mem::take(&mut example.targets));
        let mut written = written.collect::<Vec<Vec<Likeliest>>>().into_iter();
        let mut lesson = self.conversations.lesson(step, batch, position, learner, reporter).await?;
        for part in lesson.substeps.iter_mut().flatten() {
            let rows = part.data.iter().cloned();
            let data: Vec<Datum> = match &self.from {
                TargetsFrom::Teacher(teachers) => {
                    let rows = rows.map(|row| self.with_targets(teachers, row)).collect::<Vec<_>>();
                    stream::iter(rows).buffered(CONCURRENCY).try_collect().await?
                }
                TargetsFrom::File(name) => {
                    let missing =
                        || TrainError::File { path: name.clone(), message: "holds a place without targets".to_owned() };
                    let taught =
                        |(row, targets): (Datum, Vec<Likeliest>)| self.taught(row, &targets).ok_or_else(missing);
                    rows.zip(written.by_ref()).map(taught).collect::<Result<_, _>>()?
                }
            };
            *part = LossPart { data: data.into(), loss: LossFunction::CrossEntropy, is_auxiliary: false };
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
    async fn with_targets(&self, teachers: &Teachers, row: Datum) -> Result<Datum, TrainError> {
        let name = teachers.only()?;
        let mut tokens = Vec::with_capacity(row.positions() + 1);
        for chunk in &row.model_input {
            match chunk {
                Chunk::Tokens(chunk) => tokens.extend(chunk),
                Chunk::Image { .. } => return Err(TrainError::TeacherOfImages { name: name.to_owned() }),
            }
        }
        tokens.extend(row.target_tokens.last());
        let likeliest = teachers.score(name, &tokens, self.top_k).await?.likeliest;
        self.taught(row, &likeliest).ok_or_else(|| TrainError::TeacherWithoutTargets { name: name.to_owned() })
    }

    /// The same with targets that are known; `None` if a place has none that can be learnt.
    fn taught(&self, row: Datum, likeliest: &[Likeliest]) -> Option<Datum> {
        let LossInputs::Supervised { weights } = &row.loss_inputs else { return Some(row) };
        let vocabulary = self.conversations.tokenizer.vocabulary_size();
        let loss_inputs = soft_targets(weights, likeliest, self.top_k, |token| (token as usize) < vocabulary)?;
        Some(Datum { loss_inputs, ..row })
    }
}

/// Refuses a teacher whose host does not tell so many likely tokens of a prompt.
pub(crate) async fn check_teacher(teachers: &Teachers, top_k: usize) -> Result<(), TrainError> {
    teachers.check_likeliest(teachers.only()?, top_k).await
}
