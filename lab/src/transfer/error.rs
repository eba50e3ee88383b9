//! What can go wrong between a store and a file.

use std::path::PathBuf;

use fulgurite_store::StoreError;

use super::parquet::ParquetFileError;

/// Error of an export or an import.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A file's name says no format.
    #[error("{}: the name must end in .jsonl or .parquet", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// A line of a file cannot be read.
    #[error("{place}")]
    UnreadableLine {
        /// Its number.
        place: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line of a file is text of another kind.
    #[error("{place} is not JSON")]
    NotJson {
        /// Its number.
        place: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// An object of a file is no record of a store.
    #[error("{place} is not a record")]
    NotARecord {
        /// Its line or row.
        place: String,
        /// What is wrong with it.
        source: NotARecord,
    },
    /// The store refuses a record.
    #[error("{place} cannot be stored")]
    CannotBeStored {
        /// Its line or row.
        place: String,
        /// Why.
        source: StoreError,
    },
    /// A file was not imported to its end.
    #[error("cannot import {}; {before} records before it went well", file.display())]
    Import {
        /// The file.
        file: PathBuf,
        /// Records that are in the store now, of this file and those before it.
        before: u64,
        /// Why it ended.
        source: Box<TransferError>,
    },
    /// A Parquet file cannot be read or written.
    #[error(transparent)]
    Parquet(#[from] ParquetFileError),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A record cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Why an object is no record.
#[derive(Debug, thiserror::Error)]
pub enum NotARecord {
    /// It is a triplet, which is made of records.
    #[error("triplets are made of generations and rewards; export those (--what all) to import them")]
    Triplet,
    /// It lacks a field, or has one that no record has.
    #[error("{message}")]
    Fields {
        /// Which.
        message: String,
    },
}
