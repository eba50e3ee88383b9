//! Records as lines of JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::Path;

use fulgurite_types::MendedJson;
use serde_json::Value;

use super::TransferError;

/// Writes records, one JSON object a line.
pub(crate) struct JsonlWriter(BufWriter<File>);

impl JsonlWriter {
    /// Makes the file, or empties it.
    pub(crate) fn create(path: &Path) -> Result<Self, TransferError> {
        Ok(Self(BufWriter::new(File::create(path)?)))
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, record: &Value) -> Result<(), TransferError> {
        serde_json::to_writer(&mut self.0, record)?;
        Ok(self.0.write_all(b"\n")?)
    }

    /// Writes what is left, and waits until the disk has it.
    pub(crate) fn finish(self) -> Result<(), TransferError> {
        Ok(self.0.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?)
    }
}

/// Reads what [`JsonlWriter`] writes; empty lines are passed over.
pub(crate) struct JsonlReader {
    lines: Lines<BufReader<File>>,
    line: usize,
}

impl JsonlReader {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Self, TransferError> {
        Ok(Self { lines: BufReader::new(File::open(path)?).lines(), line: 0 })
    }

    /// The next record, with its place in the file.
    pub(crate) fn next(&mut self) -> Result<Option<(String, Value)>, TransferError> {
        for line in self.lines.by_ref() {
            self.line += 1;
            let place = format!("line {}", self.line);
            let line = match line {
                Ok(line) => line,
                Err(source) => return Err(TransferError::UnreadableLine { place, source }),
            };
            if !line.trim().is_empty() {
                let mended = MendedJson::of(line.as_bytes());
                if let Some(mended) = &mended {
                    tracing::warn!("{place} is read with {}", mended.warning());
                }
                let line = mended.as_ref().map_or(line.as_bytes(), |mended| &mended.text);
                return match serde_json::from_slice(line) {
                    Ok(value) => Ok(Some((place, value))),
                    Err(source) => Err(TransferError::NotJson { place, source }),
                };
            }
        }
        Ok(None)
    }
}
