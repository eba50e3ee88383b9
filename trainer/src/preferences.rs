//! Learning from comparisons: which of two answers to a prompt is better.

use std::sync::Arc;

use fulgurite_backends::{AdamParameters, Learner};
use fulgurite_renderers::Renderer;

use crate::conversations::{
    ComparedExample, ComparisonReader, RecordedComparisons, RecordedRules, Rendering, RowFile, Sequences, Split,
};
use crate::evaluation::ComparisonEvaluator;
use crate::objectives::{Held, Preference, Reference};
use crate::run::{Checkpointing, RunSummary, TrainingRun};
use crate::schedule::Schedule;
use crate::sft::{ConversationsFile, SftData, held_out, sequence_limit};
use crate::sources::{ConversationBatch, ConversationSource};
use crate::{ObjectiveName, Record, Reporter, RunIdentity, TrainError, TrainOn, TrainerOptions, Validation};

/// Learning from comparisons of answers, by one of the losses of [`ObjectiveName`] that compare.
#[derive(Clone)]
pub struct Preferences {
    /// Where its steps are written.
    pub record: Arc<dyn Record>,
    /// What learns.
    pub learner: Arc<dyn Learner>,
    /// What it is held against, of a loss that has such a thing.
    pub reference: Reference,
    /// Names that, with what its weights are: a run that is resumed must have the same.
    pub reference_name: String,
    /// Renders the comparisons.
    pub renderer: Arc<dyn Renderer>,
    /// How it learns.
    pub options: TrainerOptions,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// What is trained.
    pub data: SftData,
    /// What is scored, where that is in a file of its own.
    pub validation: Option<ConversationsFile>,
    /// Which run.
    pub identity: RunIdentity,
}

/// Comparisons that have been looked at.
struct Data {
    trained: Arc<dyn Sequences<ComparedExample>>,
    split: Arc<Split>,
    scored: Arc<dyn Sequences<ComparedExample>>,
    scored_numbers: Vec<u64>,
}

impl Preferences {
    /// Looks at every comparison, then trains until the epochs or the limit of updates end it. With `resume`, goes on from the
    /// last checkpoint that is whole.
    ///
    /// # Errors
    /// [`TrainError::Row`] or [`TrainError::Rollout`] for what cannot be trained on; nothing is trained then.
    /// [`TrainError::ReferenceChanged`] if the run is resumed with another reference.
    pub async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        self.options.check()?;
        let data = self.read().await?;
        self.training_run(data)?.train(resume, reporter).await
    }

    async fn read(&self) -> Result<Data, TrainError> {
        let trained = match &self.data {
            SftData::File(file) => self.open(file).await?,
            SftData::Rollouts { rollout_ids, models } => self.recorded(rollout_ids, models).await?,
        };
        let all = trained.count();
        let held_out = match self.options.source.as_ref().and_then(|source| source.validation.as_ref()) {
            Some(Validation::Share(share)) => held_out(all, *share)?,
            Some(Validation::File(_)) | None => 0,
        };
        let split = Arc::new(Split::new(self.identity.seed, all, held_out));
        let (scored, scored_numbers): (Arc<dyn Sequences<ComparedExample>>, Vec<u64>) = match &self.validation {
            Some(file) => {
                let scored = self.open(file).await?;
                let numbers = (0..scored.count()).collect();
                (scored, numbers)
            }
            None => (trained.clone(), split.held_out().collect()),
        };
        Ok(Data { trained, split, scored, scored_numbers })
    }

    async fn recorded(
        &self,
        rollout_ids: &[String],
        models: &[String],
    ) -> Result<Arc<dyn Sequences<ComparedExample>>, TrainError> {
        let options = &self.options;
        let rules = RecordedRules {
            tokenizer: self.renderer.tokenizer().fingerprint().to_owned(),
            models: models.to_vec(),
            max_tokens: sequence_limit(options, self.context_length)?,
            truncate: options.truncate,
        };
        let opened = RecordedComparisons::open(self.record.clone(), rules, rollout_ids, options.unusable_rows);
        Ok(Arc::new(opened.await?))
    }

    async fn open(&self, file: &ConversationsFile) -> Result<Arc<dyn Sequences<ComparedExample>>, TrainError> {
        let options = &self.options;
        let rendering = Rendering {
            renderer: self.renderer.clone(),
            train_on: TrainOn::Customized,
            max_tokens: sequence_limit(options, self.context_length)?,
            truncate: options.truncate,
        };
        let reader = ComparisonReader { rendering, takes_single_answers: options.objective == ObjectiveName::Kto };
        let ConversationsFile { path, name, unit } = file;
        Ok(Arc::new(RowFile::open(path, name, *unit, reader, options.unusable_rows).await?))
    }

    fn training_run(&self, data: Data) -> Result<TrainingRun<ConversationBatch<ComparedExample>>, TrainError> {
        let options = &self.options;
        let loss = options.preference.loss(options.objective).ok_or_else(|| TrainError::Option {
            key: "[trainer] objective".to_owned(),
            message: format!("is {}, which compares nothing", options.objective.as_str()),
        })?;
        let held =
            loss.has_reference().then(|| Held { reference: self.reference.clone(), name: self.reference_name.clone() });
        let updates = data.split.trained().div_ceil(options.batch_size as u64).saturating_mul(options.epochs);
        let updates = options.max_steps.map_or(updates, |most| most.min(updates));
        Ok(TrainingRun {
            record: self.record.clone(),
            learner: self.learner.clone(),
            identity: self.identity.clone(),
            source: Box::new(ConversationSource {
                conversations: data.trained,
                split: data.split,
                batch_size: options.batch_size,
            }),
            objective: Box::new(Preference {
                loss,
                held: held.clone(),
                max_tokens: sequence_limit(options, self.context_length)?,
                comparisons: None,
            }),
            evaluator: Box::new(ComparisonEvaluator {
                learner: self.learner.clone(),
                comparisons: data.scored,
                numbers: data.scored_numbers,
                loss,
                held,
                batch_size: options.batch_size,
                every: options.evaluation.every,
            }),
            schedule: Schedule::new(options.learning_rate_schedule, options.warmup, 0, updates),
            optimizer: AdamParameters {
                learning_rate: options.learning_rate,
                beta1: options.beta1,
                beta2: options.beta2,
                gradient_clip_norm: options.gradient_clip_norm,
                ..AdamParameters::default()
            },
            checkpointing: Checkpointing { every: options.checkpoint_every, kept: options.keep_checkpoints },
            stop_without_gradient: 0,
            publisher: None,
            keeps_reference: loss.has_reference() && matches!(self.reference, Reference::Start),
        })
    }
}
