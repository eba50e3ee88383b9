//! Supervised fine-tuning: a model learns from conversations that are there, by cross entropy.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_backends::Learner;
use fulgurite_renderers::Renderer;

use crate::conversations::{
    ConversationFile, Example, FilePart, HeldOutRows, MixturePart, QuestionReader, RecordedRollouts, RecordedRules,
    Rendering, RowFile, RowRules, RowUnit, Sequences, SoftTargetReader, SplitData,
};
use crate::evaluation::{ConversationScores, DataEvaluator};
use crate::objectives::{ConversationLoss, Objective, SoftTargetLoss, TargetsFrom, Teachers, check_teacher};
use crate::options::{ConversationForm, ConversationPlan, DataOptions, Packing, Portion, RowKind, TrainOn};
use crate::run::{Course, RunBuilder, TrainingRun};
use crate::sources::{ConversationBatch, ConversationSource, report_forms};
use crate::{Record, Reporter, RunIdentity, RunSummary, TrainError};

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
    pub plan: ConversationPlan,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// What is trained.
    pub data: SftData,
    /// Whose likeliest tokens it learns, in the place of those that are there.
    pub teachers: Option<Teachers>,
    /// What is scored, where that is in files of its own.
    pub validation: Vec<HeldOutFile>,
    /// Which run.
    pub identity: RunIdentity,
}

/// What a model learns from.
#[derive(Clone, Debug)]
pub enum SftData {
    /// Conversations in a file.
    File(ConversationsFile),
    /// Conversations in several files.
    Mixture(Vec<MixtureFile>),
    /// Rollouts of the record.
    Rollouts {
        /// Which ones, in their order.
        rollout_ids: Vec<String>,
        /// Whose answers are trained.
        models: Vec<String>,
    },
}

/// A file of several that are read as one.
#[derive(Clone, Debug)]
pub struct MixtureFile {
    /// Where its rows are.
    pub file: ConversationsFile,
    /// How they are written.
    pub form: ConversationForm,
    /// How often they are read.
    pub portion: Portion,
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

/// A file of rows that are scored.
#[derive(Clone, Debug)]
pub struct HeldOutFile {
    /// What their metrics are called, if they have such of their own.
    pub name: Option<String>,
    /// Where they are.
    pub file: ConversationsFile,
}

impl Sft {
    /// Looks at every conversation, then trains until the epochs or the limit of updates end it. With `resume`, goes on
    /// from the last checkpoint that is whole.
    ///
    /// # Errors
    /// [`TrainError::Row`] for a row that cannot be trained on; nothing is trained then.
    pub async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        if let Some(teachers) = &self.teachers {
            check_teacher(teachers, teachers.options.top_k).await?;
        }
        let data = self.read().await?;
        report_forms(data.found(), reporter);
        self.training_run(data)?.train(resume, reporter).await
    }

    async fn read(&self) -> Result<SplitData<Example>, TrainError> {
        let mut scored = Vec::new();
        for HeldOutFile { name, file } in &self.validation {
            scored.push(HeldOutRows::all(name.clone(), self.open(file, FilePart::Scored).await?));
        }
        let (seed, share) = (self.identity.seed, self.plan.data.validation_share());
        let trained = match &self.data {
            SftData::File(file) => self.open(file, FilePart::Trained).await?,
            SftData::Rollouts { rollout_ids, models } => self.recorded(rollout_ids, models).await?,
            SftData::Mixture(files) => {
                let parts = open_mixture(&self.plan, &self.renderer, self.max_tokens()?, files).await?;
                return SplitData::mixed(seed, parts, self.plan.data.mixture_unit(), scored, share);
            }
        };
        SplitData::new(seed, trained, scored, share)
    }

    async fn recorded(&self, rollout_ids: &[String], models: &[String]) -> Result<Arc<dyn Sequences>, TrainError> {
        let DataOptions { truncate, unusable_rows, .. } = self.plan.data;
        let rules = RecordedRules {
            renderer: self.renderer.clone(),
            models: models.to_vec(),
            max_tokens: self.max_tokens()?,
            truncate,
        };
        let opened = RecordedRollouts::open(self.record.clone(), rules, rollout_ids, unusable_rows);
        Ok(Arc::new(opened.await?))
    }

    async fn open(&self, file: &ConversationsFile, part: FilePart) -> Result<Arc<dyn Sequences>, TrainError> {
        open_conversations(&self.plan, &self.renderer, self.max_tokens()?, file, part).await
    }

    fn max_tokens(&self) -> Result<Option<usize>, TrainError> {
        sequence_limit("[trainer] max_tokens", self.plan.data.max_tokens, self.context_length)
    }

    fn training_run(&self, data: SplitData<Example>) -> Result<TrainingRun<ConversationBatch>, TrainError> {
        let ConversationPlan { common, data: DataOptions { batch_size, every, .. }, packing, reduction, .. } =
            &self.plan;
        let pack_into = match packing {
            Packing::Concatenate => Some(self.pack_into()?),
            // A learner computes sequences of a pass one behind the other, and none sees another.
            Packing::Off | Packing::Documents => None,
        };
        let course = Course::of_epochs(common, &self.plan.data, data.split.trained());
        let source = ConversationSource { conversations: data.trained, split: data.split, batch_size: *batch_size };
        let evaluator = DataEvaluator {
            learner: self.learner.clone(),
            sets: data.scored,
            batch_size: *batch_size,
            every: *every,
            scores: ConversationScores::new(*reduction, self.renderer.tokenizer().clone()),
        };
        let builder = RunBuilder::new(&self.record, self.learner.clone(), &self.identity, course);
        Ok(builder.build(Box::new(source), self.objective(pack_into), Box::new(evaluator)))
    }

    fn objective(&self, pack_into: Option<usize>) -> Box<dyn Objective<ConversationBatch>> {
        let conversations = ConversationLoss {
            reduction: self.plan.reduction,
            pack_into,
            tokenizer: self.renderer.tokenizer().clone(),
        };
        let from = match (&self.teachers, &self.data) {
            (Some(teachers), _) => TargetsFrom::Teacher(Box::new(teachers.clone())),
            (None, SftData::File(file)) if self.plan.rows == RowKind::SoftTargets => {
                TargetsFrom::File(file.name.clone())
            }
            (None, _) => return Box::new(conversations),
        };
        Box::new(SoftTargetLoss { conversations, top_k: self.plan.top_k, from })
    }

    /// Tokens of a sequence that conversations are put into.
    fn pack_into(&self) -> Result<usize, TrainError> {
        self.max_tokens()?.ok_or_else(|| TrainError::Option {
            key: "[trainer] max_tokens".to_owned(),
            message: "is missing: packing fills sequences up to it, and the model does not tell its context".to_owned(),
        })
    }
}

/// A file of conversations, every row of which is looked at, as the plan has them.
pub(crate) async fn open_conversations(
    plan: &ConversationPlan,
    renderer: &Arc<dyn Renderer>,
    max_tokens: Option<usize>,
    file: &ConversationsFile,
    part: FilePart,
) -> Result<Arc<dyn Sequences>, TrainError> {
    let ConversationsFile { path, name, unit } = file;
    let DataOptions { truncate, reasoning, .. } = plan.data;
    let rules = RowRules::of(&plan.data, part);
    let rendering = |form: ConversationForm, train_on| Rendering {
        form: form.into(),
        renderer: renderer.clone(),
        train_on,
        max_tokens,
        truncate,
        cut: Default::default(),
        reasoning: reasoning.into(),
    };
    Ok(match plan.rows {
        RowKind::SoftTargets => {
            let tokenizer = renderer.tokenizer();
            let reader = SoftTargetReader {
                tokenizer: tokenizer.fingerprint().to_owned(),
                vocabulary: tokenizer.vocabulary_size(),
                top_k: plan.top_k,
                max_tokens,
                truncate,
                cut: Default::default(),
            };
            Arc::new(RowFile::open(path, name, *unit, reader, rules).await?)
        }
        RowKind::Questions { form } => {
            let reader = QuestionReader(rendering(form, TrainOn::Customized));
            Arc::new(RowFile::open(path, name, *unit, reader, rules).await?)
        }
        RowKind::Conversations { form, train_on } => {
            let rendering = rendering(form, form.train_on(train_on));
            Arc::new(ConversationFile::open(path, name, *unit, rendering, rules).await?)
        }
    })
}

/// Several files of conversations, each in a form of its own.
pub(crate) async fn open_mixture(
    plan: &ConversationPlan,
    renderer: &Arc<dyn Renderer>,
    max_tokens: Option<usize>,
    files: &[MixtureFile],
) -> Result<Vec<MixturePart<Example>>, TrainError> {
    let mut parts = Vec::with_capacity(files.len());
    for MixtureFile { file, form, portion } in files {
        let rows = match plan.rows {
            RowKind::Conversations { train_on, .. } => RowKind::Conversations { form: *form, train_on },
            RowKind::Questions { .. } => RowKind::Questions { form: *form },
            RowKind::SoftTargets => RowKind::SoftTargets,
        };
        let plan = ConversationPlan { rows, ..plan.clone() };
        let rows = open_conversations(&plan, renderer, max_tokens, file, FilePart::Trained).await?;
        parts.push(MixturePart { rows, portion: *portion });
    }
    Ok(parts)
}

/// Tokens that a sequence may have: as the option `key` says, or else the model's context.
pub(crate) fn sequence_limit(
    key: &str,
    configured: Option<usize>,
    context_length: Option<usize>,
) -> Result<Option<usize>, TrainError> {
    match (configured, context_length) {
        (Some(configured), Some(context)) if configured > context => Err(TrainError::Option {
            key: key.to_owned(),
            message: format!("is {configured}, but the model's context is {context}"),
        }),
        (configured, context) => Ok(configured.or(context)),
    }
}
