//! Supervised fine-tuning: a model learns from conversations that are there, by cross entropy.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_backends::{AdamParameters, Learner};
use fulgurite_renderers::Renderer;

use crate::conversations::{
    ConversationFile, QuestionReader, RecordedRollouts, RecordedRules, Rendering, RowFile, RowUnit, Sequences, Split,
};
use crate::evaluation::ConversationEvaluator;
use crate::objectives::{ConversationLoss, Objective, SoftTargetLoss, Teachers, check_teacher};
use crate::run::{Checkpointing, RunSummary, TrainingRun};
use crate::schedule::Schedule;
use crate::sources::{ConversationBatch, ConversationSource};
use crate::{ObjectiveName, Record, Reporter, RunIdentity, TrainError, TrainOn, TrainerOptions, Validation};

/// Supervised fine-tuning on conversations; on comparisons, as questions which answer is better, it makes a reward model.
#[derive(Clone)]
pub struct Sft {
    /// Where its steps are written.
    pub record: Arc<dyn Record>,
    /// What learns.
    pub learner: Arc<dyn Learner>,
    /// Renders the conversations.
    pub renderer: Arc<dyn Renderer>,
    /// How it learns.
    pub options: TrainerOptions,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// What is trained.
    pub data: SftData,
    /// Whose likeliest tokens it learns, in the place of those that are there.
    pub teachers: Option<Teachers>,
    /// What is scored, where that is in a file of its own.
    pub validation: Option<ConversationsFile>,
    /// Which run.
    pub identity: RunIdentity,
}

/// What a model learns from.
#[derive(Clone, Debug)]
pub enum SftData {
    /// Conversations in a file.
    File(ConversationsFile),
    /// Rollouts of the record.
    Rollouts {
        /// Which ones, in their order.
        rollout_ids: Vec<String>,
        /// Whose answers are trained.
        models: Vec<String>,
    },
}

/// A file of conversations: JSON lines of `{"messages": [...], "tools": [...]}`.
#[derive(Clone, Debug)]
pub struct ConversationsFile {
    /// What is read.
    pub path: PathBuf,
    /// What errors call it, if it was made from another.
    pub name: PathBuf,
    /// What its rows are to people.
    pub unit: RowUnit,
}

/// Conversations that have been looked at.
struct Data {
    trained: Arc<dyn Sequences>,
    split: Arc<Split>,
    scored: Arc<dyn Sequences>,
    scored_numbers: Vec<u64>,
}

impl Sft {
    /// Looks at every conversation, then trains until the epochs or the limit of updates end it. With `resume`, goes on
    /// from the last checkpoint that is whole.
    ///
    /// # Errors
    /// [`TrainError::Row`] for a row that cannot be trained on; nothing is trained then.
    pub async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        self.options.check()?;
        if let Some(teachers) = &self.teachers {
            check_teacher(teachers, teachers.options.top_k).await?;
        }
        let data = self.read().await?;
        self.training_run(data)?.train(resume, reporter).await
    }

    async fn read(&self) -> Result<Data, TrainError> {
        let options = &self.options;
        let trained = match &self.data {
            SftData::File(file) => self.open(file).await?,
            SftData::Rollouts { rollout_ids, models } => self.recorded(rollout_ids, models).await?,
        };
        let all = trained.count();
        let held_out = match options.source.as_ref().and_then(|source| source.validation.as_ref()) {
            Some(Validation::Share(share)) => held_out(all, *share)?,
            Some(Validation::File(_)) | None => 0,
        };
        let split = Arc::new(Split::new(self.identity.seed, all, held_out));
        let (scored, scored_numbers): (Arc<dyn Sequences>, Vec<u64>) = match &self.validation {
            Some(file) => {
                let scored = self.open(file).await?;
                let numbers = (0..scored.count()).collect();
                (scored, numbers)
            }
            None => (trained.clone(), split.held_out().collect()),
        };
        Ok(Data { trained, split, scored, scored_numbers })
    }

    async fn recorded(&self, rollout_ids: &[String], models: &[String]) -> Result<Arc<dyn Sequences>, TrainError> {
        let options = &self.options;
        let rules = RecordedRules {
            tokenizer: self.renderer.tokenizer().fingerprint().to_owned(),
            models: models.to_vec(),
            max_tokens: self.max_tokens()?,
            truncate: options.truncate,
        };
        let opened = RecordedRollouts::open(self.record.clone(), rules, rollout_ids, options.unusable_rows);
        Ok(Arc::new(opened.await?))
    }

    async fn open(&self, file: &ConversationsFile) -> Result<Arc<dyn Sequences>, TrainError> {
        let options = &self.options;
        let asks = options.objective == ObjectiveName::RewardModel;
        let rendering = Rendering {
            renderer: self.renderer.clone(),
            train_on: if asks { TrainOn::Customized } else { options.train_on },
            max_tokens: self.max_tokens()?,
            truncate: options.truncate,
        };
        let ConversationsFile { path, name, unit } = file;
        if asks {
            let reader = QuestionReader(rendering);
            return Ok(Arc::new(RowFile::open(path, name, *unit, reader, options.unusable_rows).await?));
        }
        Ok(Arc::new(ConversationFile::open(path, name, *unit, rendering, options.unusable_rows).await?))
    }

    fn max_tokens(&self) -> Result<Option<usize>, TrainError> {
        sequence_limit(&self.options, self.context_length)
    }

    fn training_run(&self, data: Data) -> Result<TrainingRun<ConversationBatch>, TrainError> {
        let options = &self.options;
        let pack_into = if options.packing { Some(self.pack_into()?) } else { None };
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
            objective: self.objective(pack_into),
            evaluator: Box::new(ConversationEvaluator {
                learner: self.learner.clone(),
                conversations: data.scored,
                numbers: data.scored_numbers,
                reduction: options.reduction,
                tokenizer: self.renderer.tokenizer().clone(),
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
            keeps_reference: false,
        })
    }

    fn objective(&self, pack_into: Option<usize>) -> Box<dyn Objective<ConversationBatch>> {
        let conversations = ConversationLoss {
            reduction: self.options.reduction,
            pack_into,
            tokenizer: self.renderer.tokenizer().clone(),
        };
        match &self.teachers {
            Some(teachers) => {
                Box::new(SoftTargetLoss { conversations, top_k: teachers.options.top_k, teachers: teachers.clone() })
            }
            None => Box::new(conversations),
        }
    }

    /// Tokens of a sequence that conversations are put into.
    fn pack_into(&self) -> Result<usize, TrainError> {
        self.max_tokens()?.ok_or_else(|| TrainError::Option {
            key: "[trainer] max_tokens".to_owned(),
            message: "is missing: packing fills sequences up to it, and the model does not tell its context".to_owned(),
        })
    }
}

/// Tokens that a sequence may have: as the options say, or else the model's context.
pub(crate) fn sequence_limit(
    options: &TrainerOptions,
    context_length: Option<usize>,
) -> Result<Option<usize>, TrainError> {
    match (options.max_tokens, context_length) {
        (Some(told), Some(context)) if told > context => Err(TrainError::Option {
            key: "[trainer] max_tokens".to_owned(),
            message: format!("is {told}, but the model's context is {context}"),
        }),
        (told, context) => Ok(told.or(context)),
    }
}

/// How many of `all` conversations a share is: one at least, and not all.
pub(crate) fn held_out(all: u64, share: f64) -> Result<u64, TrainError> {
    let held_out = ((all as f64 * share).round() as u64).max(1);
    if held_out < all {
        return Ok(held_out);
    }
    Err(TrainError::Option {
        key: "[trainer] source.validation".to_owned(),
        message: format!("is {share}, and of {all} conversations that leaves none to train on"),
    })
}
