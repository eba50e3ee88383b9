use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_types::{Datum, GenerationUse};
use serde_json::{Map, Value};

use crate::sources::DataPosition;
use crate::{Reporter, SampleAnswer, TrainError};

/// What is learnt from the data of a step.
#[async_trait]
pub(crate) trait Objective<Data>: Send {
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

    /// What the learner's passes over a lesson say, one pass a substep.
    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError>;
}

/// What the learner is given in a step.
pub(crate) struct Lesson {
    /// Rows of each optimizer step, in order; none if there is nothing to learn.
    pub(crate) substeps: Vec<Arc<[Datum]>>,
    pub(crate) loss: LossFunction,
    /// What there is to say of the data.
    pub(crate) metrics: Map<String, Value>,
    /// What becomes of every token that was sampled for it.
    pub(crate) uses: Vec<GenerationUse>,
    /// Where there is nothing to learn: what the policy said.
    pub(crate) answers: Vec<SampleAnswer>,
}

/// One pass of the learner.
pub(crate) struct Pass {
    pub(crate) data: Arc<[Datum]>,
    /// Of each datum, the logprob of each of its targets under the weights before the update.
    pub(crate) logprobs: Vec<Vec<f32>>,
    pub(crate) loss_sum: f64,
    /// Of the distributions that predict the trained targets, if the host tells it.
    pub(crate) entropy_sum: Option<f64>,
}

/// What passes say.
#[derive(Default)]
pub(crate) struct Measurement {
    /// Numbers by the names that they are logged by.
    pub(crate) metrics: Vec<(&'static str, f64)>,
    /// Targets that were trained.
    pub(crate) trained_tokens: usize,
}
