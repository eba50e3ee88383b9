use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_backends::{ForwardBackward, Learner, LossFunction};
use fulgurite_types::{Datum, GenerationUse, TeacherLogprobs, TrainedTokens};
use serde_json::{Map, Value};

use super::trained_rows::{LearntRow, TrainedRow, trained_tokens as of_rows};
use crate::sources::DataPosition;
use crate::{Reporter, SampleAnswer, TrainError};

/// What is learnt from the data of a step.
#[async_trait]
pub(crate) trait Objective<Data>: Send + Sync {
    /// Makes datums of the data of the update that follows `step` others. What the objective has to remember from step to
    /// step is part of the position.
    async fn lesson(
        &mut self,
        step: u64,
        data: Data,
        position: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError>;

    /// Adds the gradient of a part: of its token losses, unless the objective has another.
    async fn forward_backward(
        &mut self,
        part: &LossPart,
        learner: &dyn Learner,
    ) -> Result<ForwardBackward, TrainError> {
        Ok(learner.forward_backward(Arc::clone(&part.data), part.loss).await?)
    }

    /// What is learnt beside a part, and can be made only once the learner has told the part's logprobs; its gradient adds to
    /// that of the substep.
    async fn addition(&mut self, _: &Pass, _: &dyn Learner) -> Result<Option<LossPart>, TrainError> {
        Ok(None)
    }

    /// Puts what the objective has to remember of weights beside a checkpoint that was made after `step` updates.
    async fn save(&self, _step: u64, _checkpoint: &Path) -> Result<(), TrainError> {
        Ok(())
    }

    /// Takes back what was put there.
    async fn restore(&mut self, _step: u64, _checkpoint: &Path) -> Result<(), TrainError> {
        Ok(())
    }

    /// What the learner's passes over a lesson say, one pass a part, in order.
    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError>;
}

/// Rows under a loss.
#[derive(Clone)]
pub(crate) struct LossPart {
    pub(crate) data: Arc<[Datum]>,
    pub(crate) loss: LossFunction,
    /// Whether it is of what is learnt beside the main objective.
    pub(crate) is_auxiliary: bool,
}

/// What the learner is given in a step.
#[derive(Default)]
pub(crate) struct Lesson {
    /// What each optimizer step learns, in order: the sum of its parts. None if there is nothing to learn.
    pub(crate) substeps: Vec<Vec<LossPart>>,
    /// Passes that the learner has made already, whose gradients have accumulated for one more optimizer step.
    pub(crate) passes: Vec<Pass>,
    /// How long those waited for rollouts.
    pub(crate) waited: Duration,
    /// What there is to say of the data.
    pub(crate) metrics: Map<String, Value>,
    /// What becomes of every token that was sampled for it.
    pub(crate) uses: Vec<GenerationUse>,
    /// What teachers made of those tokens.
    pub(crate) teacher_logprobs: Vec<TeacherLogprobs>,
    /// Whose tokens the rows of the policy's parts train, row by row in the order in which they are learnt; none where that is
    /// not to be recorded.
    pub(crate) trained_rows: Vec<TrainedRow>,
    /// Where there is nothing to learn: what the policy said.
    pub(crate) answers: Vec<SampleAnswer>,
    /// Mean negative logprob of the tokens that were sampled for it, in nats; none where they are too few to judge by.
    pub(crate) sampled_nll: Option<f64>,
}

impl Lesson {
    /// Whether there is nothing to learn.
    pub(crate) fn is_empty(&self) -> bool {
        self.substeps.is_empty() && self.passes.is_empty()
    }

    /// One part a substep, all under one loss.
    pub(crate) fn substeps_of(data: impl IntoIterator<Item = Arc<[Datum]>>, loss: LossFunction) -> Vec<Vec<LossPart>> {
        data.into_iter().map(|data| vec![LossPart { data, loss, is_auxiliary: false }]).collect()
    }
}

/// One pass of the learner over a part.
#[derive(Clone)]
pub(crate) struct Pass {
    /// Of which substep.
    pub(crate) substep: usize,
    /// Whether the part is of what is learnt beside the main objective.
    pub(crate) is_auxiliary: bool,
    pub(crate) data: Arc<[Datum]>,
    /// Of each datum, the logprob of each of its targets under the weights before the update.
    pub(crate) logprobs: Vec<Vec<f32>>,
    pub(crate) loss_sum: f64,
    /// Of each datum, the entropy of the distribution that predicts each target, 0 of targets that are not trained; if the host
    /// tells it.
    pub(crate) entropies: Option<Vec<Vec<f32>>>,
}

impl Pass {
    /// Whether the host reports the logprobs of the weights that train.
    pub(crate) fn has_logprobs(&self) -> bool {
        self.logprobs.len() == self.data.len()
    }

    /// The sum of the entropies, in nats; `None` if the host does not tell them.
    pub(crate) fn entropy_sum(&self) -> Option<f64> {
        let of_datum = |entropies: &Vec<f32>| entropies.iter().fold(0.0, |sum, entropy| sum + f64::from(*entropy));
        Some(self.entropies.as_ref()?.iter().map(of_datum).sum())
    }
}

/// What passes say.
#[derive(Default)]
pub(crate) struct Measurement {
    /// Numbers by the names that they are logged by.
    pub(crate) metrics: Vec<(&'static str, f64)>,
    /// Targets that were trained.
    pub(crate) trained_tokens: usize,
}

/// What the passes of a lesson made of the tokens that its rows train; nothing where their logprobs are not reported.
pub(crate) fn trained_tokens<'p>(rows: &[TrainedRow], passes: &'p [Pass]) -> Vec<TrainedTokens> {
    if !passes.iter().all(Pass::has_logprobs) {
        return Vec::new();
    }
    let of_policy = passes.iter().filter(|pass| !pass.is_auxiliary);
    let of_pass = |pass: &'p Pass| {
        let entropies = move |row: usize| pass.entropies.as_ref().and_then(|rows| Some(rows.get(row)?.as_slice()));
        let rows = pass.data.iter().zip(&pass.logprobs).enumerate();
        rows.map(move |(row, (datum, logprobs))| LearntRow { datum, logprobs, entropies: entropies(row) })
    };
    of_rows(rows, &of_policy.flat_map(of_pass).collect::<Vec<_>>())
}

/// Has the learner add the gradient of a part, and of what the objective adds to it once it knows its logprobs.
pub(crate) async fn learn<Data>(
    objective: &mut (impl Objective<Data> + ?Sized),
    substep: usize,
    part: &LossPart,
    learner: &dyn Learner,
) -> Result<Pass, TrainError> {
    let computed = objective.forward_backward(part, learner).await?;
    let ForwardBackward { loss_sum, logprobs, entropies } = computed;
    let (data, is_auxiliary) = (Arc::clone(&part.data), part.is_auxiliary);
    let pass = Pass { substep, is_auxiliary, data, logprobs, loss_sum, entropies };
    if let Some(LossPart { data, loss, .. }) = objective.addition(&pass, learner).await? {
        learner.forward_backward(data, loss).await?;
    }
    Ok(pass)
}
