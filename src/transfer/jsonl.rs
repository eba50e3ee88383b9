use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_types::MendedJson;
use serde_json::Value;

/// Writes records, one JSON object a line.
pub struct JsonlWriter(BufWriter<File>);

impl JsonlWriter {
    /// Makes the file, or empties it.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self(BufWriter::new(File::create(path)?)))
    }

    /// Writes a record.
    pub fn write(&mut self, record: &Value) -> Result<()> {
        serde_json::to_writer(&mut self.0, record)?;
        Ok(self.0.write_all(b"\n")?)
    }

    /// Writes what is left, and waits until the disk has it.
    pub fn finish(self) -> Result<()> {
        Ok(self.0.into_inner()?.sync_all()?)
    }
}

/// Reads what [`JsonlWriter`] writes; empty lines are passed over.
pub struct JsonlReader {
    lines: Lines<BufReader<File>>,
    line: usize,
}

impl JsonlReader {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { lines: BufReader::new(File::open(path)?).lines(), line: 0 })
    }

    /// The next record, with its place in the file.
    pub fn next(&mut self) -> Result<Option<(String, Value)>> {
        for line in self.lines.by_ref() {
            self.line += 1;
            let place = format!("line {}", self.line);
            let line = line.with_context(|| place.clone())?;
            if !line.trim().is_empty() {
                let mended = MendedJson::of(line.as_bytes());
                if let Some(mended) = &mended {
                    tracing::warn!("{place} is read with {}", mended.warning());
                }
                let line = mended.as_ref().map_or(line.as_bytes(), |mended| &mended.text);
                let value = serde_json::from_slice(line).with_context(|| format!("{place} is not JSON"))?;
                return Ok(Some((place, value)));
            }
        }
        Ok(None)
    }
}
