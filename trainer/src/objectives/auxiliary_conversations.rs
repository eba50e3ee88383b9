//! Two objectives in one update: the gradient is the sum of theirs.

use std::path::Path;

use async_trait::async_trait;
use fulgurite_backends::{ForwardBackward, Learner};
use fulgurite_types::{Datum, LossInputs};

use super::conversation_loss::ConversationLoss;
use super::objective::{Lesson, LossPart, Measurement, Objective, Pass, learn};
use crate::sources::{ConversationBatch, DataPosition};
use crate::{Reporter, TrainError};

/// Cross entropy on conversations beside another objective.
pub(crate) struct AuxiliaryConversations<Data> {
    pub(crate) main: Box<dyn Objective<Data>>,
    pub(crate) conversations: ConversationLoss,
    /// What their mean loss counts for.
    pub(crate) weight: f32,
}

#[async_trait]
impl<Data: Send + 'static> Objective<(Data, ConversationBatch)> for AuxiliaryConversations<Data> {
    async fn lesson(
        &mut self,
        step: u64,
        (data, batch): (Data, ConversationBatch),
        position: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let auxiliary = self.conversations.lesson(step, batch, position, learner, reporter).await?;
        let mut lesson = self.main.lesson(step, data, position, learner, reporter).await?;
        lesson
            .metrics
            .extend(auxiliary.metrics.into_iter().map(|(key, value)| (format!("conversations/{key}"), value)));
        lesson.uses.extend(auxiliary.uses);
        let parts = auxiliary.substeps.into_iter().flatten().map(|part| weighted(&part, self.weight));
        if lesson.passes.is_empty() {
            // They are learnt in the first optimizer step of several.
            match lesson.substeps.first_mut() {
                Some(first) => first.extend(parts),
                None => lesson.substeps.extend(Some(parts.collect::<Vec<_>>()).filter(|parts| !parts.is_empty())),
            }
            return Ok(lesson);
        }
        for part in parts {
            lesson.passes.push(learn(&mut self.conversations, 0, &part, learner).await?);
        }
        Ok(lesson)
    }

    async fn forward_backward(
        &mut self,
        part: &LossPart,
        learner: &dyn Learner,
    ) -> Result<ForwardBackward, TrainError> {
        match part.is_auxiliary {
            true => self.conversations.forward_backward(part, learner).await,
            false => self.main.forward_backward(part, learner).await,
        }
    }

    async fn addition(&mut self, pass: &Pass, learner: &dyn Learner) -> Result<Option<LossPart>, TrainError> {
        if pass.is_auxiliary { Ok(None) } else { self.main.addition(pass, learner).await }
    }

    async fn save(&self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        self.main.save(step, checkpoint).await
    }

    async fn restore(&mut self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        self.main.restore(step, checkpoint).await
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        let (auxiliary, main): (Vec<Pass>, Vec<Pass>) = passes.iter().cloned().partition(|pass| pass.is_auxiliary);
        let mut measured = if main.is_empty() { Measurement::default() } else { self.main.measure(&main)? };
        let of_conversations = self.conversations.measure(&auxiliary)?;
        measured.trained_tokens += of_conversations.trained_tokens;
        measured.metrics.extend(of_conversations.metrics.into_iter().filter_map(|(key, value)| match key {
            // The learner's loss has the weight in it.
            "train_mean_nll" if self.weight > 0.0 => {
                Some(("conversations/train_mean_nll", value / f64::from(self.weight)))
            }
            "train_mean_bpb" => Some(("conversations/train_mean_bpb", value)),
            _ => None,
        }));
        Ok(measured)
    }
}

/// A part of conversations whose loss counts for so much.
fn weighted(part: &LossPart, by: f32) -> LossPart {
    let scaled = |datum: &Datum| {
        let mut datum = datum.clone();
        if let LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights.iter_mut().for_each(|weight| *weight *= by);
        }
        datum
    };
    LossPart { data: part.data.iter().map(scaled).collect(), loss: part.loss, is_auxiliary: true }
}
