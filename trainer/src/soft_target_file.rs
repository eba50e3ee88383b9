//! What a teacher would say in the places of conversations, written down to be learnt from without it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use fulgurite_renderers::{Renderer, WeightedTokens};
use futures::{StreamExt, TryStreamExt, stream};

use crate::conversations::{Example, FilePart, Likeliest, SoftTargetRow, TaughtSequence};
use crate::objectives::{CONCURRENCY, Teachers, check_teacher};
use crate::sft::{ConversationsFile, open_conversations, sequence_limit};
use crate::{ConversationPlan, TrainError};

/// Rows that are asked about together.
const PART: u64 = 64;

/// Soft targets that are to be written.
pub struct SoftTargetFile {
    /// Renders the conversations.
    pub renderer: Arc<dyn Renderer>,
    /// How they are learnt.
    pub plan: ConversationPlan,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
    /// The conversations.
    pub conversations: ConversationsFile,
    /// Who is asked.
    pub teachers: Teachers,
}

impl SoftTargetFile {
    /// Writes a line for each conversation that would be trained, in their order; says how many there are. `progress` is told
    /// how many are written, and of how many.
    ///
    /// # Errors
    /// [`TrainError::Row`] for a row that cannot be trained on; [`TrainError::Teacher`] if the teacher cannot be asked.
    pub async fn write(&self, to: &Path, mut progress: impl FnMut(u64, u64)) -> Result<u64, TrainError> {
        let teachers = &self.teachers;
        check_teacher(teachers, self.plan.top_k).await?;
        let max_tokens = sequence_limit("[trainer] max_tokens", self.plan.data.max_tokens, self.context_length)?;
        let rows =
            open_conversations(&self.plan, &self.renderer, max_tokens, &self.conversations, FilePart::Trained).await?;
        let failed = |message: String| TrainError::File { path: to.to_owned(), message };
        let mut file = BufWriter::new(File::create(to).map_err(|error| failed(error.to_string()))?);
        let count = rows.count();
        for first in (0..count).step_by(PART as usize) {
            let numbers: Vec<u64> = (first..count.min(first + PART)).collect();
            let written = rows.read(&numbers).await?.into_iter().map(|example| self.row(example)).collect::<Vec<_>>();
            let taught: Vec<SoftTargetRow> = stream::iter(written).buffered(CONCURRENCY).try_collect().await?;
            for row in taught {
                let line = serde_json::to_string(&row).map_err(|error| failed(error.to_string()))?;
                writeln!(file, "{line}").map_err(|error| failed(error.to_string()))?;
            }
            progress(first + numbers.len() as u64, count);
        }
        file.flush().map_err(|error| failed(error.to_string()))?;
        Ok(count)
    }

    async fn row(&self, example: Example) -> Result<SoftTargetRow, TrainError> {
        let mut sequences = Vec::with_capacity(example.sequences.len());
        for sequence in example.sequences {
            sequences.push(self.taught(sequence).await?);
        }
        let tokenizer = self.renderer.tokenizer().fingerprint().to_owned();
        Ok(SoftTargetRow { tokenizer, top_k: self.plan.top_k, sequences })
    }

    /// A sequence with targets in the places that are trained.
    async fn taught(
        &self,
        WeightedTokens { tokens, mut weights }: WeightedTokens,
    ) -> Result<TaughtSequence, TrainError> {
        let (name, top_k) = (self.teachers.only()?, self.plan.top_k);
        if let Some(first) = weights.first_mut() {
            *first = 0.0;
        }
        let vocabulary = self.renderer.tokenizer().vocabulary_size();
        let can_be_learnt = |(token, logprob): &(u32, f32)| (*token as usize) < vocabulary && logprob.is_finite();
        let scored = self.teachers.score(name, &tokens, top_k).await?.likeliest;
        let mut targets: Vec<Likeliest> = Vec::with_capacity(scored.len());
        for (likeliest, weight) in scored.into_iter().zip(weights.iter().skip(1)) {
            let known = likeliest.into_iter().filter(can_be_learnt).take(if *weight > 0.0 { top_k } else { 0 });
            let known: Likeliest = known.collect();
            if *weight > 0.0 && known.is_empty() {
                return Err(TrainError::TeacherWithoutTargets { name: name.to_owned() });
            }
            targets.push(known);
        }
        Ok(TaughtSequence { tokens, weights, targets })
    }
}
