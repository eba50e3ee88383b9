//! Rollouts that were recorded, as sequences: the tokens that were sampled, as they were sampled.

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_adapters::{exclusion, sampled_sequences, side_requests};
use fulgurite_backends::DigestingWriter;
use fulgurite_renderers::{Renderer, WeightedTokens};
use fulgurite_types::{Defect, Generation, GenerationUse, RolloutRecord, TokenUse, UntrainedCause};

use super::rendering::{keep_within_length, marks_as_text};
use super::split::sequences::{CutCount, Example, MarksAsText, Sequences, SkippedRows, Unusable};
use crate::{Record, TrainError, Truncation, UnusableRows};

/// Rollouts that are looked at together.
pub(super) const PART: usize = 16;

/// What of a rollout is trained.
#[derive(Clone)]
pub(crate) struct RecordedRules {
    /// The format of the model, with the tokenizer that it speaks.
    pub(crate) renderer: Arc<dyn Renderer>,
    /// Whose answers are trained.
    pub(crate) models: Vec<String>,
    /// Tokens of a sequence at most.
    pub(crate) max_tokens: Option<usize>,
    /// What becomes of what is longer.
    pub(crate) truncate: Truncation,
}

/// Rollouts of a record, every one of which has been looked at.
pub(crate) struct RecordedRollouts {
    record: Arc<dyn Record>,
    rules: RecordedRules,
    /// Those that can be trained.
    rollout_ids: Vec<String>,
    skipped: SkippedRows,
    marks_as_text: MarksAsText,
    fingerprint: String,
}

impl RecordedRollouts {
    /// Looks at these rollouts.
    ///
    /// # Errors
    /// [`TrainError::Rollout`] for the first that cannot be trained, unless such are left out.
    pub(crate) async fn open(
        record: Arc<dyn Record>,
        rules: RecordedRules,
        rollout_ids: &[String],
        unusable: UnusableRows,
    ) -> Result<Self, TrainError> {
        let mut this = Self {
            record,
            rules,
            rollout_ids: Vec::new(),
            skipped: SkippedRows::new(),
            marks_as_text: MarksAsText::default(),
            fingerprint: String::new(),
        };
        for ids in rollout_ids.chunks(PART) {
            for (rollout_id, recorded) in ids.iter().zip(rollout_records(this.record.as_ref(), ids).await?) {
                match this.rules.example(&recorded) {
                    Ok(example) => {
                        this.marks_as_text.add(this.rules.marks_as_text(&example));
                        this.rollout_ids.push(rollout_id.clone());
                    }
                    Err((_, message)) if unusable == UnusableRows::Refuse => {
                        let message = message + " (unusable_rows = \"skip\" leaves such rollouts out)";
                        return Err(TrainError::Rollout { rollout_id: rollout_id.clone(), message });
                    }
                    Err((cause, _)) => *this.skipped.entry(cause).or_default() += 1,
                }
            }
        }
        if this.rollout_ids.is_empty() {
            return Err(TrainError::NoRollouts { looked_at: rollout_ids.len() });
        }
        let mut digest = DigestingWriter::new(std::io::sink());
        for rollout_id in &this.rollout_ids {
            // A sink takes everything.
            let _ = writeln!(digest, "{rollout_id}");
        }
        this.fingerprint = digest.finish().1;
        Ok(this)
    }
}

/// Rollouts with all that was recorded of them.
pub(super) async fn rollout_records(record: &dyn Record, ids: &[String]) -> Result<Vec<RolloutRecord>, TrainError> {
    let records = record.rollout_records(ids).await?;
    let missing = |rollout_id: &String| TrainError::Rollout {
        rollout_id: rollout_id.clone(),
        message: "is not in the store any more".to_owned(),
    };
    ids.iter().zip(records).map(|(id, record)| record.ok_or_else(|| missing(id))).collect()
}

#[async_trait]
impl Sequences for RecordedRollouts {
    fn count(&self) -> u64 {
        self.rollout_ids.len() as u64
    }

    async fn read(&self, numbers: &[u64]) -> Result<Vec<Example>, TrainError> {
        let ids: Vec<String> =
            numbers.iter().filter_map(|number| self.rollout_ids.get(*number as usize).cloned()).collect();
        let mut examples = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PART) {
            for (rollout_id, recorded) in ids.iter().zip(rollout_records(self.record.as_ref(), ids).await?) {
                let example = self.rules.example(&recorded);
                let wrong = |(_, message)| TrainError::Rollout { rollout_id: rollout_id.clone(), message };
                examples.push(example.map_err(wrong)?);
            }
        }
        Ok(examples)
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn marks_as_text(&self) -> MarksAsText {
        self.marks_as_text
    }
}

impl RecordedRules {
    /// Control tokens that the trained words of a rollout spell as text.
    pub(super) fn marks_as_text(&self, example: &Example) -> u64 {
        marks_as_text(self.renderer.tokenizer(), &example.sequences)
    }

    /// The sequences of a rollout's last attempt, and what becomes of every token that was sampled in it.
    pub(super) fn example(&self, recorded: &RolloutRecord) -> Result<Example, (Unusable, String)> {
        let latest = recorded.attempts.last().map(|attempt| attempt.attempt_id.as_str());
        let side = side_requests(&recorded.generations);
        let judged: Vec<(&Generation, Option<UntrainedCause>)> = recorded
            .generations
            .iter()
            .map(|generation| match latest == Some(&generation.attempt_id) {
                true if side.contains(generation.generation_id.as_str()) => {
                    (generation, Some(UntrainedCause::Auxiliary))
                }
                true => (generation, self.untrained_cause(generation)),
                false => (generation, Some(UntrainedCause::SupersededAttempt)),
            })
            .collect();
        let trained: Vec<&Generation> =
            judged.iter().filter(|(_, cause)| cause.is_none()).map(|(generation, _)| *generation).collect();
        if trained.is_empty() {
            let causes: Vec<&str> = judged.iter().filter_map(|(_, cause)| Some((*cause)?.as_str())).collect();
            let why = if causes.is_empty() { "it called no model".to_owned() } else { causes.join(", ") };
            return Err((Unusable::NothingToTrain, format!("has no model call to train on: {why}")));
        }
        let sequences = sampled_sequences(&trained).into_iter();
        let mut sequences: Vec<WeightedTokens> =
            sequences.map(|(tokens, weights)| WeightedTokens { tokens, weights }).collect();
        if let Some(most) = self.max_tokens {
            for sequence in &mut sequences {
                keep_within_length(sequence, most, self.truncate, &CutCount::default())?;
            }
        }
        if !sequences.iter().any(|sequence| sequence.weights.iter().skip(1).any(|weight| *weight > 0.0)) {
            return Err((Unusable::NothingToTrain, "has nothing to train on before its limit".to_owned()));
        }
        let uses = judged.iter().map(|(generation, cause)| GenerationUse {
            generation_id: generation.generation_id.clone(),
            cause: cause.map_or(TokenUse::Trained, TokenUse::Untrained),
            tokens: generation.sampled_tokens.len() as u64,
        });
        Ok(Example { uses: uses.collect(), sequences, targets: Vec::new() })
    }

    /// Why an answer is not trained. It is trained as it is: neither what it was sampled with nor how likely it was matters.
    fn untrained_cause(&self, generation: &Generation) -> Option<UntrainedCause> {
        match exclusion(generation) {
            None
            | Some(
                UntrainedCause::NoLogprobs | UntrainedCause::UnknownWeights | UntrainedCause::ModifiedDistribution,
            ) => {}
            cause => return cause,
        }
        match &generation.defect {
            Some(Defect::Auxiliary(_)) => return Some(UntrainedCause::Auxiliary),
            Some(_) => return Some(UntrainedCause::Defective),
            None => {}
        }
        if generation.tokenizer != self.renderer.tokenizer().fingerprint() {
            return Some(UntrainedCause::UnknownTokenizer);
        }
        (!self.models.contains(&generation.model)).then_some(UntrainedCause::OtherModel)
    }
}
