//! `fulgurite export` and `fulgurite import`: a store, or a part of it, as a file and back.

mod export;
mod export_subject;
mod import;
mod jsonl;
mod metrics;
mod parquet;

use std::path::Path;

use anyhow::{Result, bail};

pub use export::export;
pub use import::import;

/// How a file holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One JSON object a line.
    Jsonl,
    /// A table whose token columns are lists.
    Parquet,
}

impl Format {
    /// The format that a file's name asks for.
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            Some("parquet") => Ok(Self::Parquet),
            _ => bail!("{}: the name must end in .jsonl or .parquet", path.display()),
        }
    }
}
