//! What the data of a run are before anything is trained: how many rows, how long, what of them is trained, and what is not.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_renderers::{Renderer, Tokenizer, WeightedTokens};
use serde::Serialize;

use crate::conversations::{FilePart, FirstSkipped, HeldOutRows, Rendered, Sequences, SplitData};
use crate::options::{DataOptions, TrainingPlan, UnusableRows};
use crate::preferences::{open_compared_mixture, open_comparisons};
use crate::sft::{HeldOutFile, SftData, open_conversations, open_mixture, sequence_limit};
use crate::{ConversationPlan, TrainError};

/// Rows that are read together.
const PART: usize = 64;
/// Rows that are shown with what of them is trained.
const SHOWN: usize = 3;

/// Data that are to be looked at.
pub struct DataCheck {
    /// Renders the rows.
    pub renderer: Arc<dyn Renderer>,
    /// How they are learnt.
    pub plan: TrainingPlan,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// What is trained.
    pub data: SftData,
    /// What is scored, where that is in files of its own.
    pub validation: Vec<HeldOutFile>,
    /// Chooses what is scored, where that is a share.
    pub seed: u64,
}

/// What the data of a run are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataReport {
    /// What is trained.
    pub training: DataPart,
    /// What is scored.
    pub validation: Vec<DataPart>,
    /// Of a mixture: how many rows of each file an epoch reads.
    pub mixture: Vec<MixtureReads>,
    /// Rows of the validation that are trained, too.
    pub shared_rows: u64,
    /// Rows of the validation whose prompt is trained, too.
    pub shared_prompts: u64,
    /// Rows that are left out of the files, by cause.
    pub left_out: Vec<LeftOut>,
    /// Sequences of the files that are cut at `max_tokens`.
    pub cut_sequences: u64,
    /// Tokens that these lose.
    pub cut_tokens: u64,
    /// Tokens that a sequence may have.
    pub max_tokens: Option<usize>,
    /// The first rows that are trained.
    pub rows: Vec<ShownRow>,
}

/// What an epoch reads of a file of a mixture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixtureReads {
    /// The file.
    pub file: PathBuf,
    /// Rows that an epoch reads of it.
    pub rows: u64,
}

/// Rows that are trained, or that are scored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DataPart {
    /// What the config calls it, if it has a name.
    pub name: Option<String>,
    /// The files that they are in.
    pub files: Vec<PathBuf>,
    /// What the rows of each file were found to be, where the config leaves that open.
    pub form: Option<String>,
    /// How many rows there are.
    pub rows: u64,
    /// Sequences that they make.
    pub sequences: u64,
    /// Tokens of these.
    pub tokens: u64,
    /// Tokens that are trained.
    pub trained_tokens: u64,
    /// Rows that make the same sequences as one before them.
    pub duplicates: u64,
    /// Tokens of each row, the fewest first.
    #[serde(skip)]
    pub lengths: Vec<u64>,
    /// Of the lengths the least, the median, the 90th and 99th of a hundred, and the greatest.
    pub length: Lengths,
}

/// Tokens of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Of the shortest.
    pub least: u64,
    /// Half of the rows have no more.
    pub median: u64,
    /// Nine of ten rows have no more.
    pub p90: u64,
    /// 99 of a hundred rows have no more.
    pub p99: u64,
    /// Of the longest.
    pub greatest: u64,
}

/// Rows that are left out for a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The file.
    pub file: PathBuf,
    /// As metrics have it.
    pub cause: &'static str,
    /// How many.
    pub rows: u64,
    /// The first one, from 1.
    pub first: u64,
    /// Why it is left out.
    pub reason: String,
    /// Whether the run would end because of it, as `unusable_rows` is.
    pub ends_run: bool,
}

/// A row as it is trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownRow {
    /// Its sequences.
    pub sequences: Vec<ShownSequence>,
}

/// A sequence as it is trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownSequence {
    /// Of comparisons: `chosen` or `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// Its text in parts of one weight.
    pub parts: Vec<ShownPart>,
}

/// Text of tokens that have one weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownPart {
    /// What each of its tokens counts in the loss; 0 is read and not trained.
    pub weight: f32,
    /// Its tokens.
    pub tokens: usize,
    /// As text.
    pub text: String,
}

impl DataCheck {
    /// Looks at every row. Rows that cannot be trained are counted here, also where they end a run.
    ///
    /// # Errors
    /// [`TrainError::Row`] for a row that is wrong; [`TrainError::File`] for a file without any to train on.
    pub async fn report(&self) -> Result<DataReport, TrainError> {
        match &self.plan {
            TrainingPlan::Conversations(plan) => {
                let options = counting(&plan.data);
                let plan = ConversationPlan { data: options, ..plan.as_ref().clone() };
                let max_tokens = self.max_tokens(&plan.data)?;
                let mut scored = Vec::new();
                for HeldOutFile { name, file } in &self.validation {
                    let rows = open_conversations(&plan, &self.renderer, max_tokens, file, FilePart::Scored).await?;
                    scored.push(HeldOutRows::all(name.clone(), rows));
                }
                let (seed, share) = (self.seed, plan.data.validation_share());
                let data = match &self.data {
                    SftData::File(file) => {
                        let rows =
                            open_conversations(&plan, &self.renderer, max_tokens, file, FilePart::Trained).await?;
                        SplitData::new(seed, rows, scored, share)?
                    }
                    SftData::Mixture(files) => {
                        let parts = open_mixture(&plan, &self.renderer, max_tokens, files).await?;
                        SplitData::mixed(seed, parts, plan.data.mixture_unit(), scored, share)?
                    }
                    SftData::Rollouts { .. } => return Err(no_files()),
                };
                self.of_rows(data, max_tokens).await
            }
            TrainingPlan::Comparisons(plan) => {
                let mut plan = plan.as_ref().clone();
                plan.data = counting(&plan.data);
                let max_tokens = self.max_tokens(&plan.data)?;
                let mut scored = Vec::new();
                for HeldOutFile { name, file } in &self.validation {
                    let rows = open_comparisons(&plan, &self.renderer, max_tokens, file, FilePart::Scored).await?;
                    scored.push(HeldOutRows::all(name.clone(), rows));
                }
                let (seed, share) = (self.seed, plan.data.validation_share());
                let data = match &self.data {
                    SftData::File(file) => {
                        let rows = open_comparisons(&plan, &self.renderer, max_tokens, file, FilePart::Trained).await?;
                        SplitData::new(seed, rows, scored, share)?
                    }
                    SftData::Mixture(files) => {
                        let parts = open_compared_mixture(&plan, &self.renderer, max_tokens, files).await?;
                        SplitData::mixed(seed, parts, plan.data.mixture_unit(), scored, share)?
                    }
                    SftData::Rollouts { .. } => return Err(no_files()),
                };
                self.of_rows(data, max_tokens).await
            }
            TrainingPlan::Rollouts(_) => Err(no_files()),
        }
    }

    fn max_tokens(&self, data: &DataOptions) -> Result<Option<usize>, TrainError> {
        sequence_limit("[trainer] max_tokens", data.max_tokens, self.context_length)
    }

    async fn of_rows<Row: Rendered + Send + 'static>(
        &self,
        data: SplitData<Row>,
        max_tokens: Option<usize>,
    ) -> Result<DataReport, TrainError> {
        let mut left_out = self.left_out(data.trained.as_ref());
        let mut cut = data.trained.cut();
        for HeldOutRows { rows, .. } in data.scored.iter().take(self.validation.len()) {
            left_out.extend(self.left_out(rows.as_ref()));
            cut.sequences += rows.cut().sequences;
            cut.tokens += rows.cut().tokens;
        }
        let (mut rows, mut prompts) = (HashSet::new(), HashSet::new());
        let numbers = data.split.all_trained();
        let training = part(data.trained.as_ref(), &numbers, |row, prompt| {
            prompts.insert(prompt);
            rows.insert(row)
        });
        let training = DataPart { files: self.files(), ..training.await? };
        let (mut shared_rows, mut shared_prompts, mut validation) = (0, 0, Vec::new());
        for (index, HeldOutRows { name, rows: scored, numbers }) in data.scored.iter().enumerate() {
            let mut seen = HashSet::new();
            let scored = part(scored.as_ref(), numbers, |row, prompt| {
                shared_rows += u64::from(rows.contains(&row));
                shared_prompts += u64::from(prompts.contains(&prompt));
                seen.insert(row)
            });
            let own = self.validation.get(index).map(|held_out| vec![held_out.file.name.clone()]);
            let files = own.unwrap_or_else(|| self.files());
            validation.push(DataPart { name: name.clone(), files, ..scored.await? });
        }
        let reads = self.files().into_iter().zip(data.split.reads());
        let mixture = match self.data {
            SftData::Mixture(_) => reads.map(|(file, rows)| MixtureReads { file, rows }).collect(),
            SftData::File(_) | SftData::Rollouts { .. } => Vec::new(),
        };
        let first = data.split.read(0, SHOWN as u64);
        let shown = data.trained.read(&first).await?;
        let tokenizer = self.renderer.tokenizer();
        Ok(DataReport {
            training,
            validation,
            mixture,
            shared_rows,
            shared_prompts,
            left_out,
            cut_sequences: cut.sequences,
            cut_tokens: cut.tokens,
            max_tokens,
            rows: shown.iter().map(|row| shown_row(tokenizer, row)).collect(),
        })
    }

    /// The files of what is trained, as people know them.
    fn files(&self) -> Vec<PathBuf> {
        match &self.data {
            SftData::File(file) => vec![file.name.clone()],
            SftData::Mixture(files) => files.iter().map(|mixed| mixed.file.name.clone()).collect(),
            SftData::Rollouts { .. } => Vec::new(),
        }
    }

    fn left_out<Row>(&self, rows: &dyn Sequences<Row>) -> Vec<LeftOut> {
        let refuses = match &self.plan {
            TrainingPlan::Conversations(plan) => plan.data.unusable_rows == UnusableRows::Refuse,
            TrainingPlan::Comparisons(plan) => plan.data.unusable_rows == UnusableRows::Refuse,
            TrainingPlan::Rollouts(_) => false,
        };
        let of_cause = |first: &FirstSkipped| LeftOut {
            file: first.file.clone(),
            cause: first.cause.as_str(),
            rows: first.rows,
            first: first.number,
            reason: first.message.clone(),
            ends_run: refuses && !first.cause.is_expected(),
        };
        rows.first_skipped().iter().map(of_cause).collect()
    }
}

/// Refuses a run that learns from no files.
fn no_files() -> TrainError {
    TrainError::Option {
        key: "[trainer] objective".to_owned(),
        message: "learns from rollouts, and no file of conversations or comparisons is there to look at".to_owned(),
    }
}

/// The same options, by which rows that cannot be trained are counted.
fn counting(options: &DataOptions) -> DataOptions {
    DataOptions { unusable_rows: UnusableRows::Skip, ..options.clone() }
}

/// Counts rows; `is_new` is given the digests of a row and of its prompt, and says whether the row is none of those before.
async fn part<Row: Rendered>(
    rows: &dyn Sequences<Row>,
    numbers: &[u64],
    mut is_new: impl FnMut(u64, u64) -> bool,
) -> Result<DataPart, TrainError> {
    let forms: Vec<&str> = rows.found().into_iter().map(|found| found.form.as_str()).collect();
    let form = Some(forms.join(", ")).filter(|forms| !forms.is_empty());
    let mut part = DataPart { form, rows: numbers.len() as u64, ..DataPart::default() };
    for numbers in numbers.chunks(PART) {
        for row in rows.read(numbers).await? {
            let mut length = 0;
            let mut whole = DefaultHasher::new();
            for (_, sequence) in row.named() {
                part.sequences += 1;
                length += sequence.tokens.len() as u64;
                part.trained_tokens += sequence.weights.iter().skip(1).filter(|weight| **weight > 0.0).count() as u64;
                sequence.tokens.hash(&mut whole);
                sequence.weights.iter().for_each(|weight| weight.to_bits().hash(&mut whole));
            }
            part.tokens += length;
            part.lengths.push(length);
            part.duplicates += u64::from(!is_new(whole.finish(), row.prompt_digest()));
        }
    }
    part.lengths.sort_unstable();
    part.length = Lengths::of(&part.lengths);
    Ok(part)
}

impl Lengths {
    fn of(sorted: &[u64]) -> Self {
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share).ceil() as usize;
            sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { least: at(0.0), median: at(0.5), p90: at(0.9), p99: at(0.99), greatest: at(1.0) }
    }
}

fn shown_row<Row: Rendered>(tokenizer: &Tokenizer, row: &Row) -> ShownRow {
    let shown = |(answer, sequence): (Option<&'static str>, &WeightedTokens)| {
        let part = |(weight, run): (f32, &[u32])| ShownPart { weight, tokens: run.len(), text: tokenizer.decode(run) };
        ShownSequence { answer, parts: sequence.runs().map(part).collect() }
    };
    ShownRow { sequences: row.named().into_iter().map(shown).collect() }
}
