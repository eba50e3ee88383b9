//! A file of rows that is read row by row when a row is due, so that its size costs no memory.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use fulgurite_backends::file_digest;
use fulgurite_types::MendedJson;

use super::rendering::{RenderRefusal, Rendering};
use super::rows::lines::{LineError, RowPlace, RowUnit, file_error, is_blank, read_line};
use super::rows::row_rules::field_digest;
use super::rows::row_rules::{Grouping, RowRules};
use super::split::sequences::{
    CutOff, Example, FirstSkipped, FoundForm, MarksAsText, Rendered, Sequences, SkippedRows, Unusable,
};
use crate::{ConversationForm, TrainError, UnusableRows};

/// Of every so many rows the place in the file is kept; a row is read from the one before it.
const STRIDE: u64 = 16;
/// Bytes that are read ahead where a row is looked for.
const BUFFER: usize = 16 << 10;

/// Makes what is learnt from of a row: of a conversation, or of a comparison.
pub(crate) trait RowReader: Send + Sync + 'static {
    type Item: Rendered + Send + 'static;
    /// What its rows are to people.
    const WHAT: &'static str;

    /// Reads a row of JSON; says of a mistake what it is, and of what is right and cannot be trained, why.
    fn read(&self, json: &[u8]) -> Result<Self::Item, RenderRefusal>;

    /// Control tokens that the trained words of a row spell as text.
    fn marks_as_text(&self, _: &Self::Item) -> u64 {
        0
    }

    /// The form that the first row was found to have, where the config leaves it open.
    fn found_form(&self) -> Option<ConversationForm> {
        None
    }

    /// What was cut off of the rows that were read so far.
    fn cut(&self) -> CutOff {
        CutOff::default()
    }
}

impl RowReader for Rendering {
    type Item = Example;
    const WHAT: &'static str = "conversation";

    fn read(&self, json: &[u8]) -> Result<Example, RenderRefusal> {
        let mut conversation = match self.form.given() {
            ConversationForm::Auto => self.form.read_found(json).map_err(RenderRefusal::Wrong)?,
            given => given.read(json)?,
        };
        self.leave_out_prompt(&mut conversation);
        Ok(Example { sequences: self.sequences(&conversation)?, ..Example::default() })
    }

    fn marks_as_text(&self, example: &Example) -> u64 {
        Rendering::marks_as_text(self, &example.sequences)
    }

    fn found_form(&self) -> Option<ConversationForm> {
        self.form.found()
    }

    fn cut(&self) -> CutOff {
        self.cut.so_far()
    }
}

/// A file of JSON lines, every row of which has been looked at.
pub(crate) struct RowFile<R>(Arc<Indexed<R>>);

/// A file of conversations.
pub(crate) type ConversationFile = RowFile<Rendering>;

struct Indexed<R> {
    /// What is read.
    file: std::path::PathBuf,
    place: RowPlace,
    reader: R,
    /// Where rows 0, 16, 32, ... begin, with the number of their line.
    marks: Vec<Mark>,
    /// Rows that are left out, in order.
    left_out: Vec<u64>,
    rows: u64,
    skipped: SkippedRows,
    first_skipped: Vec<FirstSkipped>,
    /// Of each row that is not left out, if rows are to be divided so.
    groups: Vec<u64>,
    /// Of the rows that are not left out.
    tokens: u64,
    cut: CutOff,
    marks_as_text: MarksAsText,
    fingerprint: String,
    state: FileState,
}

/// Where a row begins.
#[derive(Clone, Copy)]
struct Mark {
    offset: u64,
    /// Lines before it.
    lines: u64,
}

/// By what a file is seen to have changed.
#[derive(PartialEq)]
struct FileState {
    length: u64,
    modified: Option<SystemTime>,
}

/// The file that is read, and how people know it.
pub(crate) struct ConversationsAt<'p> {
    /// JSON lines.
    pub(crate) file: &'p Path,
    /// What the config calls it.
    pub(crate) name: &'p Path,
    pub(crate) unit: RowUnit,
}

impl<R: RowReader> RowFile<R> {
    /// Looks at every row of a file.
    ///
    /// # Errors
    /// [`TrainError::Row`] for the first row that is no conversation, or that cannot be trained, unless such are left out;
    /// [`TrainError::File`] if the file cannot be read or has none.
    pub(crate) async fn open(
        file: &Path,
        name: &Path,
        unit: RowUnit,
        reader: R,
        rules: impl Into<RowRules>,
    ) -> Result<Self, TrainError> {
        let rules = rules.into();
        let (file, name) = (file.to_owned(), name.to_owned());
        let path = name.clone();
        let opened = tokio::task::spawn_blocking(move || {
            Indexed::open(&ConversationsAt { file: &file, name: &name, unit }, reader, &rules)
        });
        let opened = opened.await.map_err(|error| file_error(&path, error))??;
        Ok(Self(Arc::new(opened)))
    }
}

#[async_trait]
impl<R: RowReader> Sequences<R::Item> for RowFile<R> {
    fn count(&self) -> u64 {
        self.0.usable_rows()
    }

    async fn read(&self, numbers: &[u64]) -> Result<Vec<R::Item>, TrainError> {
        let (indexed, numbers) = (self.0.clone(), numbers.to_vec());
        let read = tokio::task::spawn_blocking(move || indexed.read(&numbers)).await;
        read.map_err(|error| self.0.place.file_error(error))?
    }

    fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    fn skipped(&self) -> &SkippedRows {
        &self.0.skipped
    }

    fn marks_as_text(&self) -> MarksAsText {
        self.0.marks_as_text
    }

    fn first_skipped(&self) -> &[FirstSkipped] {
        &self.0.first_skipped
    }

    fn groups(&self) -> Option<&[u64]> {
        Some(self.0.groups.as_slice()).filter(|groups| !groups.is_empty())
    }

    fn cut(&self) -> CutOff {
        self.0.cut
    }

    fn tokens(&self) -> u64 {
        self.0.tokens
    }

    fn found(&self) -> Vec<FoundForm> {
        let found = |form| FoundForm { file: self.0.place.path.clone(), form };
        self.0.reader.found_form().map(found).into_iter().collect()
    }
}

impl<R: RowReader> Indexed<R> {
    fn open(at: &ConversationsAt<'_>, reader: R, rules: &RowRules) -> Result<Self, TrainError> {
        let place = RowPlace { path: at.name.to_owned(), unit: at.unit };
        let wrong = |error: std::io::Error| place.file_error(error);
        let file = File::open(at.file).map_err(wrong)?;
        let metadata = file.metadata().map_err(wrong)?;
        if !metadata.is_file() {
            return Err(place.file_error("is no file that can be read again"));
        }
        let mut this = Self {
            file: at.file.to_owned(),
            reader,
            marks: Vec::new(),
            left_out: Vec::new(),
            rows: 0,
            skipped: SkippedRows::new(),
            first_skipped: Vec::new(),
            groups: Vec::new(),
            tokens: 0,
            cut: CutOff::default(),
            marks_as_text: MarksAsText::default(),
            fingerprint: String::new(),
            state: FileState::of(&metadata),
            place,
        };
        this.look(BufReader::with_capacity(1 << 20, file), rules)?;
        this.fingerprint = file_digest(at.file).map_err(|error| this.place.file_error(error))?;
        if let Some(most) = rules.max_rows {
            this.fingerprint = format!("{}, its first {most} rows", this.fingerprint);
        }
        this.marks.shrink_to_fit();
        if this.usable_rows() == 0 {
            let skipped = this.skipped.iter().map(|(cause, rows)| format!("{rows} are {}", cause.as_str()));
            let skipped = skipped.collect::<Vec<_>>().join(", ");
            let of_those = if skipped.is_empty() { String::new() } else { format!(": of its rows {skipped}") };
            return Err(this.place.file_error(format!("has no {} to train on{of_those}", R::WHAT)));
        }
        Ok(this)
    }

    /// Reads every row, and keeps where it is and whether it can be trained.
    fn look(&mut self, mut reader: BufReader<File>, rules: &RowRules) -> Result<(), TrainError> {
        let (mut line, mut here) = (Vec::new(), Mark { offset: 0, lines: 0 });
        let (mut mended_rows, mut first_mended) = (0_u64, None);
        while rules.max_rows.is_none_or(|most| self.usable_rows() < most)
            && self.next_line(&mut reader, &mut line, here.lines + 1)?
        {
            if !is_blank(&line) {
                if let Some(mended) = MendedJson::of(&line) {
                    mended_rows += 1;
                    first_mended.get_or_insert_with(|| (here.lines + 1, mended.warning()));
                }
                if self.rows.is_multiple_of(STRIDE) {
                    self.marks.push(here);
                }
                match self.rendered(&line, here.lines + 1)? {
                    Ok(item) => {
                        self.marks_as_text.add(self.reader.marks_as_text(&item));
                        self.tokens +=
                            item.named().iter().map(|(_, sequence)| sequence.tokens.len() as u64).sum::<u64>();
                        self.groups.extend(self.group(&rules.grouping, &line, &item, here.lines + 1)?);
                    }
                    Err((cause, message)) if rules.unusable == UnusableRows::Refuse && !cause.is_expected() => {
                        let hint = match cause {
                            Unusable::TooLong => {
                                " (unusable_rows = \"skip\" leaves such rows out, truncate = \"right\" or \"left\" cuts them)"
                            }
                            _ => " (unusable_rows = \"skip\" leaves such rows out)",
                        };
                        return Err(self.place.error(here.lines + 1, message + hint));
                    }
                    Err((cause, message)) => {
                        self.left_out.push(self.rows);
                        match self.first_skipped.iter_mut().find(|first| first.cause == cause) {
                            Some(first) => first.rows += 1,
                            None => {
                                let (file, number) = (self.place.path.clone(), here.lines + 1);
                                self.first_skipped.push(FirstSkipped { file, cause, number, message, rows: 1 });
                            }
                        }
                        *self.skipped.entry(cause).or_default() += 1;
                    }
                }
                self.rows += 1;
            }
            here = Mark { offset: here.offset + line.len() as u64, lines: here.lines + 1 };
        }
        self.cut = self.reader.cut();
        if let Some((number, warning)) = first_mended {
            let (path, rows) = (self.place.path.display(), mended_rows);
            tracing::warn!(%path, line = number, rows, "a row is read with {warning}");
        }
        Ok(())
    }

    /// Rows so far that can be trained.
    fn usable_rows(&self) -> u64 {
        self.rows - self.left_out.len() as u64
    }

    /// What a row has in common with those that are to stay together.
    fn group(&self, by: &Grouping, line: &[u8], item: &R::Item, number: u64) -> Result<Option<u64>, TrainError> {
        match by {
            Grouping::None => Ok(None),
            Grouping::Prompt => Ok(Some(item.prompt_digest())),
            Grouping::Field(name) => {
                let digest = field_digest(line, name).map_err(|message| self.place.error(number, message))?;
                Ok(Some(digest))
            }
        }
    }

    fn next_line(
        &self,
        reader: &mut BufReader<impl Read>,
        line: &mut Vec<u8>,
        number: u64,
    ) -> Result<bool, TrainError> {
        read_line(reader, line).map_err(|error| match error {
            LineError::Read(error) => self.place.file_error(error),
            LineError::TooLong => {
                let message =
                    format!("is longer than {} MiB, which no {} is", super::rows::lines::LINE_LIMIT >> 20, R::WHAT);
                self.place.error(number, message)
            }
        })
    }

    /// What a row is made, or why it is not. What is wrong with it is an error.
    fn rendered(&self, line: &[u8], number: u64) -> Result<Result<R::Item, (Unusable, String)>, TrainError> {
        match self.reader.read(line) {
            Ok(item) => Ok(Ok(item)),
            Err(RenderRefusal::Wrong(message)) => Err(self.place.error(number, message)),
            Err(RenderRefusal::Unusable(cause, message)) => Ok(Err((cause, message))),
        }
    }

    fn read(&self, numbers: &[u64]) -> Result<Vec<R::Item>, TrainError> {
        let wrong = |error: std::io::Error| self.place.file_error(error);
        let mut reader = BufReader::with_capacity(BUFFER, File::open(&self.file).map_err(wrong)?);
        if FileState::of(&reader.get_ref().metadata().map_err(wrong)?) != self.state {
            return Err(self.changed());
        }
        numbers.iter().map(|number| self.read_one(&mut reader, *number)).collect()
    }

    fn read_one(&self, reader: &mut BufReader<File>, number: u64) -> Result<R::Item, TrainError> {
        let row = self.row_of(number);
        let mark = self.marks.get((row / STRIDE) as usize).ok_or_else(|| self.changed())?;
        reader.seek(SeekFrom::Start(mark.offset)).map_err(|error| self.place.file_error(error))?;
        let (mut line, mut lines, mut rows) = (Vec::new(), mark.lines, row - row % STRIDE);
        loop {
            lines += 1;
            if !self.next_line(reader, &mut line, lines)? {
                return Err(self.changed());
            }
            if is_blank(&line) {
                continue;
            }
            if rows == row {
                return self.rendered(&line, lines)?.map_err(|(_, message)| self.place.error(lines, message));
            }
            rows += 1;
        }
    }

    /// The row of the conversation with this number: as many rows that are left out stand before it as move it there.
    fn row_of(&self, number: u64) -> u64 {
        let (mut low, mut high) = (0, self.left_out.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.left_out[middle] - middle as u64 <= number {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        number + low as u64
    }

    fn changed(&self) -> TrainError {
        self.place.file_error("was changed while it was trained on")
    }
}

impl FileState {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::row_form::RowForm;
    use super::*;
    use crate::TrainOn;

    #[tokio::test]
    async fn conversations_are_found_among_rows_that_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = fulgurite_renderers::train_byte_level_tokenizer(["a b"; 2], 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        let renderer = fulgurite_renderers::open_renderer(directory.path(), "chatml").unwrap();
        let row = |n: usize| {
            // Every seventh has nothing to train, and blank lines stand between.
            let role = if n.is_multiple_of(7) { "user" } else { "assistant" };
            format!("{}{{\"messages\": [{{\"role\": \"{role}\", \"content\": \"<{n}>\"}}]}}\n", "\n".repeat(n % 3))
        };
        let path = directory.path().join("rows.jsonl");
        std::fs::write(&path, (0..100).map(row).collect::<String>()).unwrap();
        let rendering = Rendering {
            form: RowForm::default(),
            renderer: renderer.clone(),
            train_on: TrainOn::default(),
            max_tokens: None,
            truncate: Default::default(),
            cut: Default::default(),
            reasoning: Default::default(),
        };
        let open = |unusable| ConversationFile::open(&path, &path, RowUnit::Line, rendering.clone(), unusable);
        let error = open(UnusableRows::Refuse).await.err().unwrap().to_string();
        assert!(error.contains("rows.jsonl line 1: "), "{error}");
        let file = open(UnusableRows::Skip).await.unwrap();
        let expected: Vec<usize> = (0..100usize).filter(|n| !n.is_multiple_of(7)).collect();
        assert_eq!((file.count(), file.skipped()[&Unusable::NothingToTrain]), (expected.len() as u64, 15));
        let numbers: Vec<u64> = (0..file.count()).rev().collect();
        let read = file.read(&numbers).await.unwrap();
        for (example, n) in read.iter().zip(expected.iter().rev()) {
            assert!(renderer.tokenizer().decode(&example.sequences[0].tokens).contains(&format!("<{n}>")));
        }
        std::fs::write(&path, "{}").unwrap();
        let error = file.read(&[0]).await.unwrap_err().to_string();
        assert!(error.ends_with("was changed while it was trained on"), "{error}");
    }
}
