//! How a file holds records, and the files of either format.

use std::path::Path;

use serde_json::Value;

use super::TransferError;
use super::jsonl::{JsonlReader, JsonlWriter};
use super::parquet::records::{ParquetReader, ParquetWriter};

/// How a file holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON object a line.
    Jsonl,
    /// A table whose token columns are lists.
    Parquet,
}

impl FileFormat {
    /// The format that a file's name asks for.
    ///
    /// # Errors
    /// If its ending is that of neither.
    pub fn of(path: &Path) -> Result<Self, TransferError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(TransferError::UnknownFormat { file: path.to_owned() }),
        }
    }
}

/// Writes records to a file.
pub(super) enum RecordWriter {
    /// As lines.
    Jsonl(JsonlWriter),
    /// As a table.
    Parquet(Box<ParquetWriter>),
}

impl RecordWriter {
    /// Makes the file, or empties it.
    pub(super) fn create(format: FileFormat, path: &Path) -> Result<Self, TransferError> {
        Ok(match format {
            FileFormat::Jsonl => Self::Jsonl(JsonlWriter::create(path)?),
            FileFormat::Parquet => Self::Parquet(Box::new(ParquetWriter::create(path)?)),
        })
    }

    /// Writes a record.
    pub(super) fn write(&mut self, record: Value) -> Result<(), TransferError> {
        match self {
            Self::Jsonl(writer) => writer.write(&record),
            Self::Parquet(writer) => Ok(writer.write(record)?),
        }
    }

    /// Writes what is left, and waits until the disk has it.
    pub(super) fn finish(self) -> Result<(), TransferError> {
        match self {
            Self::Jsonl(writer) => writer.finish(),
            Self::Parquet(writer) => Ok(writer.finish()?),
        }
    }
}

/// Reads records from a file.
pub(super) enum RecordReader {
    /// Of lines.
    Jsonl(JsonlReader),
    /// Of a table.
    Parquet(Box<ParquetReader>),
}

impl RecordReader {
    /// Opens a file.
    pub(super) fn open(format: FileFormat, path: &Path) -> Result<Self, TransferError> {
        Ok(match format {
            FileFormat::Jsonl => Self::Jsonl(JsonlReader::open(path)?),
            FileFormat::Parquet => Self::Parquet(Box::new(ParquetReader::open(path)?)),
        })
    }

    /// The next record, with its place in the file.
    pub(super) fn next(&mut self) -> Result<Option<(String, Value)>, TransferError> {
        match self {
            Self::Jsonl(reader) => reader.next(),
            Self::Parquet(reader) => Ok(reader.next()?),
        }
    }
}
