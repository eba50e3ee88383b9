//! Learning from comparisons: which of two answers to a prompt is better.

use std::sync::Arc;

use fulgurite_backends::Learner;
use fulgurite_renderers::Renderer;

use crate::conversations::{
    ComparedExample, ComparisonReader, FilePart, HeldOutRows, MixturePart, RecordedComparisons, RecordedRules,
    Rendering, RowFile, RowRules, Sequences, SplitData,
};
use crate::evaluation::{ComparisonScores, DataEvaluator};
use crate::objectives::{Held, Preference, Reference};
use crate::options::{ComparedAnswers, ComparisonPlan, DataOptions, TrainOn};
use crate::run::{Course, RunBuilder, TrainingRun};
use crate::sft::{ConversationsFile, HeldOutFile, MixtureFile, SftData, sequence_limit};
use crate::sources::{ConversationBatch, ConversationSource, report_forms};
use crate::{Record, Reporter, RunIdentity, RunSummary, TrainError};

/// Learning from comparisons of answers, by one of the losses that compare them.
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
    pub plan: ComparisonPlan,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// What is trained.
    pub data: SftData,
    /// What is scored, where that is in files of its own.
    pub validation: Vec<HeldOutFile>,
    /// Which run.
    pub identity: RunIdentity,
}

impl Preferences {
    /// Looks at every comparison, then trains until the epochs or the limit of updates end it. With `resume`, goes on from the
    /// last checkpoint that is whole.
    ///
    /// # Errors
    /// [`TrainError::Row`] or [`TrainError::Rollout`] for what cannot be trained on; nothing is trained then.
    /// [`TrainError::ReferenceChanged`] if the run is resumed with another reference.
    pub async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        let data = self.read().await?;
        report_forms(data.found(), reporter);
        self.training_run(data)?.train(resume, reporter).await
    }

    async fn read(&self) -> Result<SplitData<ComparedExample>, TrainError> {
        let mut scored = Vec::new();
        for HeldOutFile { name, file } in &self.validation {
            scored.push(HeldOutRows::all(name.clone(), self.open(file, FilePart::Scored).await?));
        }
        let (seed, share) = (self.identity.seed, self.plan.data.validation_share());
        let trained = match &self.data {
            SftData::File(file) => self.open(file, FilePart::Trained).await?,
            SftData::Rollouts { rollout_ids, models } => self.recorded(rollout_ids, models).await?,
            SftData::Mixture(files) => {
                let parts = open_compared_mixture(&self.plan, &self.renderer, self.max_tokens()?, files).await?;
                return SplitData::mixed(seed, parts, self.plan.data.mixture_unit(), scored, share);
            }
        };
        SplitData::new(seed, trained, scored, share)
    }

    async fn recorded(
        &self,
        rollout_ids: &[String],
        models: &[String],
    ) -> Result<Arc<dyn Sequences<ComparedExample>>, TrainError> {
        let DataOptions { truncate, unusable_rows, .. } = self.plan.data;
        let rules = RecordedRules {
            renderer: self.renderer.clone(),
            models: models.to_vec(),
            max_tokens: self.max_tokens()?,
            truncate,
        };
        let opened = RecordedComparisons::open(self.record.clone(), rules, rollout_ids, unusable_rows);
        Ok(Arc::new(opened.await?))
    }

    async fn open(
        &self,
        file: &ConversationsFile,
        part: FilePart,
    ) -> Result<Arc<dyn Sequences<ComparedExample>>, TrainError> {
        open_comparisons(&self.plan, &self.renderer, self.max_tokens()?, file, part).await
    }

    fn max_tokens(&self) -> Result<Option<usize>, TrainError> {
        sequence_limit("[trainer] max_tokens", self.plan.data.max_tokens, self.context_length)
    }

    fn training_run(
        &self,
        data: SplitData<ComparedExample>,
    ) -> Result<TrainingRun<ConversationBatch<ComparedExample>>, TrainError> {
        let ComparisonPlan { common, data: DataOptions { batch_size, every, .. }, losses, .. } = &self.plan;
        let (sft_weight, length_alpha) = (self.plan.sft_weight, self.plan.length_alpha);
        let held = losses
            .has_reference()
            .then(|| Held { reference: self.reference.clone(), name: self.reference_name.clone() });
        let course = Course::of_epochs(common, &self.plan.data, data.split.trained());
        let source = ConversationSource { conversations: data.trained, split: data.split, batch_size: *batch_size };
        let objective = Preference {
            losses: losses.clone(),
            sft_weight,
            length_alpha,
            held: held.clone(),
            max_tokens: self.max_tokens()?,
            comparisons: None,
        };
        let evaluator = DataEvaluator {
            learner: self.learner.clone(),
            sets: data.scored,
            batch_size: *batch_size,
            every: *every,
            scores: ComparisonScores::new(losses.clone(), length_alpha, held),
        };
        let builder = RunBuilder::new(&self.record, self.learner.clone(), &self.identity, course)
            .keep_reference_if(losses.has_reference() && matches!(self.reference, Reference::Start));
        Ok(builder.build(Box::new(source), Box::new(objective), Box::new(evaluator)))
    }
}

/// Several files of comparisons, each in a form of its own.
pub(crate) async fn open_compared_mixture(
    plan: &ComparisonPlan,
    renderer: &Arc<dyn Renderer>,
    max_tokens: Option<usize>,
    files: &[MixtureFile],
) -> Result<Vec<MixturePart<ComparedExample>>, TrainError> {
    let mut parts = Vec::with_capacity(files.len());
    for MixtureFile { file, form, portion } in files {
        let mut plan = plan.clone();
        if let Some(source) = &mut plan.data.source {
            source.form = *form;
        }
        let rows = open_comparisons(&plan, renderer, max_tokens, file, FilePart::Trained).await?;
        parts.push(MixturePart { rows, portion: *portion });
    }
    Ok(parts)
}

/// A file of comparisons, every row of which is looked at, as the plan has them.
pub(crate) async fn open_comparisons(
    plan: &ComparisonPlan,
    renderer: &Arc<dyn Renderer>,
    max_tokens: Option<usize>,
    file: &ConversationsFile,
    part: FilePart,
) -> Result<Arc<dyn Sequences<ComparedExample>>, TrainError> {
    let DataOptions { truncate, reasoning, .. } = plan.data;
    let rendering = Rendering {
        form: plan.data.form().into(),
        renderer: renderer.clone(),
        train_on: TrainOn::Customized,
        max_tokens,
        truncate,
        cut: Default::default(),
        reasoning: reasoning.into(),
    };
    let reader = ComparisonReader { rendering, takes_single_answers: plan.answers == ComparedAnswers::PairsOrSingle };
    let ConversationsFile { path, name, unit } = file;
    Ok(Arc::new(RowFile::open(path, name, *unit, reader, RowRules::of(&plan.data, part)).await?))
}
