//! Training on conversations, by cross entropy: how a base model is made.

use std::sync::Arc;

use fulgurite_backends::{AdamParameters, Learner};
use fulgurite_renderers::Renderer;
use serde_json::{Map, Value};

use crate::evaluation::{ACCURACY, RowEvaluator};
use crate::objectives::CrossEntropy;
use crate::options::SupervisedOptions;
use crate::run::{CheckpointTriggers, Checkpointing, Course, CourseRules, KeptCheckpoints, RunBuilder};
use crate::schedule::{Schedule, Shape};
use crate::sources::{Corpus, CorpusRows};
use crate::{Record, Reporter, RunIdentity, RunSummary, TrainError, TrainEvent};

/// Checkpoints of a base model that are kept while it is made.
const KEPT: usize = 2;

/// Trains a model on a corpus of JSON lines
/// (`{"messages": [...], "tools": [...], "split": "train" | "validation"}`), on those messages that the options say. The
/// order of the rows follows from the seed.
#[derive(Clone)]
pub struct Supervised {
    /// Where its steps are written.
    pub record: Arc<dyn Record>,
    /// What learns.
    pub learner: Arc<dyn Learner>,
    /// Renders the conversations.
    pub renderer: Arc<dyn Renderer>,
    /// How it learns.
    pub options: SupervisedOptions,
    /// Which run.
    pub identity: RunIdentity,
}

/// What supervised training came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisedResult {
    /// How the run went.
    pub run: RunSummary,
    /// Mean negative logprob of the last batch's trained tokens.
    pub loss: f64,
    /// As [`SupervisedOptions::validation_accuracy`]; `None` without validation rows.
    pub validation_accuracy: Option<f64>,
}

impl Supervised {
    /// Trains until the stop rule's cool-down or the limit of steps ends it. With `resume`, goes on from the last
    /// checkpoint that is whole.
    ///
    /// # Errors
    /// [`TrainError::Corpus`] for a line that cannot be trained on, [`TrainError::BaseNotLearnt`] if the wanted accuracy is
    /// not reached at the end.
    pub async fn run(
        &self,
        corpus: &str,
        resume: bool,
        reporter: &mut dyn Reporter,
    ) -> Result<SupervisedResult, TrainError> {
        self.options.check()?;
        let Corpus { train, validation } =
            Corpus::read(corpus, self.renderer.as_ref(), &self.options.train_on.train_on())?;
        let options = &self.options;
        let course = Course {
            schedule: Schedule::new(Shape::CONSTANT, options.warmup_steps, options.cooldown_steps, options.max_steps),
            optimizer: AdamParameters {
                learning_rate: options.learning_rate,
                gradient_clip_norm: options.gradient_clip_norm,
                ..AdamParameters::default()
            },
            checkpointing: Checkpointing {
                triggers: CheckpointTriggers { updates: Some(options.checkpoint_every), ..Default::default() },
                kept: KeptCheckpoints { newest: KEPT, seconds: None },
            },
            rules: CourseRules::default(),
        };
        let evaluator = RowEvaluator {
            learner: self.learner.clone(),
            rows: validation,
            every: options.validate_every,
            wanted: options.validation_accuracy,
        };
        let source = CorpusRows::new(train, self.identity.seed, options.batch_size);
        let builder = RunBuilder::new(&self.record, self.learner.clone(), &self.identity, course);
        let mut run = builder.build(Box::new(source), Box::new(CrossEntropy), Box::new(evaluator));
        let mut reporter = StepReporter { inner: reporter, max_steps: options.max_steps };
        let summary = run.train(resume, &mut reporter).await?;
        self.result(summary).await
    }

    /// Reads from the record how it went.
    async fn result(&self, run: RunSummary) -> Result<SupervisedResult, TrainError> {
        let steps = self.record.steps(&self.identity.run_id).await?;
        let last = |key: &str| steps.iter().rev().find_map(|step| step.metrics.get(key)?.as_f64());
        let (loss, validation_accuracy) = (last(NLL).unwrap_or(f64::NAN), last(ACCURACY));
        match self.options.validation_accuracy {
            Some(wanted) if validation_accuracy.is_none_or(|is| is < wanted) => Err(TrainError::BaseNotLearnt {
                steps: run.steps,
                accuracy: validation_accuracy.unwrap_or(0.0),
                wanted,
            }),
            _ => Ok(SupervisedResult { run, loss, validation_accuracy }),
        }
    }
}

/// The metric of the loss.
const NLL: &str = "train_mean_nll";

/// Tells of supervised steps as such: a base model is made on the way to a run, which tells of its own.
struct StepReporter<'r> {
    inner: &'r mut dyn Reporter,
    max_steps: u64,
}

impl StepReporter<'_> {
    fn step(&mut self, step: u64, metrics: &Map<String, Value>) {
        let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
        if let Some(loss) = number(NLL) {
            self.inner.report(TrainEvent::SupervisedStep {
                step: step + 1,
                max_steps: self.max_steps,
                loss,
                validation_accuracy: number(ACCURACY),
            });
        }
    }
}

impl Reporter for StepReporter<'_> {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Step { step, metrics } => self.step(step, &metrics),
            TrainEvent::CheckpointPassedOver { .. } | TrainEvent::WithoutGradient { .. } => self.inner.report(event),
            TrainEvent::SupervisedStep { .. }
            | TrainEvent::RunStarted { .. }
            | TrainEvent::Corpus { .. }
            | TrainEvent::PageServed { .. }
            | TrainEvent::RunnersAwaited { .. }
            | TrainEvent::Waiting { .. }
            | TrainEvent::AgentsAwaited { .. }
            | TrainEvent::JudgeOnLabels { .. }
            | TrainEvent::Rollouts { .. }
            | TrainEvent::Learning { .. }
            | TrainEvent::Sampled { .. }
            | TrainEvent::RolloutsFailed { .. }
            | TrainEvent::OddRewards { .. }
            | TrainEvent::StaleHarvest { .. }
            | TrainEvent::NoTrustRegion { .. }
            | TrainEvent::RowsFound { .. }
            | TrainEvent::MarksAsText { .. }
            | TrainEvent::JudgeUndecided { .. }
            | TrainEvent::WeightsJudged { .. }
            | TrainEvent::StepsSkipped { .. }
            | TrainEvent::WeightsMovedTooFar { .. }
            | TrainEvent::CheckpointNotUploaded { .. }
            | TrainEvent::StepRecalled { .. }
            | TrainEvent::Finished(_) => {}
        }
    }
}
