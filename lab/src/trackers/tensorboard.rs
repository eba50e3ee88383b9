//! Metrics as TensorBoard reads them: a file of TensorFlow's records, each an `Event` in protobuf.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use crc::{CRC_32_ISCSI, Crc};
use prost::{Message, Oneof};

use super::tracker::{TrackedStep, Tracker, numbers};
use crate::time;

/// What the names of event files begin with; TensorBoard looks for it anywhere in a name.
const PREFIX: &str = "events.out.tfevents.";
/// What the names of those end with that are written here, and that may be replaced.
const SUFFIX: &str = ".fulgurite";
/// The version of the format, of which the first event tells.
const VERSION: &str = "brain.Event:2";
/// That a session begins: whoever reads the file drops what it read of these steps before.
const START: i32 = 1;

#[derive(Clone, PartialEq, Message)]
struct TensorboardEvent {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    // One of several kinds of value, so that 0 has to be written, too.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// A file of events.
#[derive(Debug)]
pub struct TensorBoard {
    path: PathBuf,
    file: File,
}

impl TensorBoard {
    /// Begins a file in `directory`, which is made, in place of those that were written here before.
    pub fn create(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let cannot_read = || format!("cannot read {}", directory.display());
        let mut older = Vec::new();
        for entry in std::fs::read_dir(directory).with_context(cannot_read)? {
            let path = entry.with_context(cannot_read)?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
                older.push((name, path));
            }
        }
        let now = time::now();
        let name = |second: u64| format!("{PREFIX}{second:010}.{}{SUFFIX}", std::process::id());
        // TensorBoard reads the files of a directory in the order of their names.
        let greatest =
            older.iter().filter_map(|(name, _)| name[PREFIX.len()..].split('.').next()?.parse::<u64>().ok()).max();
        let second = greatest.map_or(now as u64, |greatest| (greatest + 1).max(now as u64));
        let path = directory.join(name(second));
        let file = File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut board = Self { path, file };
        board.write(&TensorboardEvent {
            wall_time: now,
            step: 0,
            what: Some(What::FileVersion(VERSION.to_owned())),
        })?;
        let start = SessionLog { status: START };
        board.write(&TensorboardEvent { wall_time: now, step: 0, what: Some(What::SessionLog(start)) })?;
        for (_, path) in older {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(board)
    }

    fn write(&mut self, event: &TensorboardEvent) -> Result<()> {
        let written = self.file.write_all(&record(&event.encode_to_vec()));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Tracker for TensorBoard {
    fn step(&mut self, step: &TrackedStep<'_>) -> Result<()> {
        let value = |(tag, value): (&str, f64)| SummaryValue { tag: tag.to_owned(), simple_value: Some(value as f32) };
        let what = What::Summary(Summary { value: numbers(step.metrics).map(value).collect() });
        self.write(&TensorboardEvent { wall_time: step.time, step: step.number as i64, what: Some(what) })
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A record: its length, what that adds up to, the bytes, what they add up to.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), bytes, &masked(bytes).to_le_bytes()].concat()
}

/// Castagnoli's, as TensorFlow's records have it.
static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The checksum as records have it, so that one of bytes which hold checksums is not their own.
fn masked(bytes: &[u8]) -> u32 {
    CHECKSUM.checksum(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_is_begun_again_takes_the_place_of_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = directory.path().join("events.out.tfevents.1.host");
        std::fs::write(&foreign, "").unwrap();
        let metrics = json!({ "step": 4, "env/all/reward/total": 0.5, "zero": 0, "kind": "text" });
        let step = TrackedStep { number: 4, time: 1.5, metrics: metrics.as_object().unwrap() };
        let mut first = TensorBoard::create(directory.path()).unwrap();
        first.step(&step).unwrap();
        let mut second = TensorBoard::create(directory.path()).unwrap();
        second.step(&step).unwrap();
        assert!(!first.path.exists() && foreign.exists() && first.path < second.path);
        let bytes = std::fs::read(&second.path).unwrap();
        let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            assert_eq!(record(&rest[12..12 + length]), rest[..16 + length]);
            events.push(TensorboardEvent::decode(&rest[12..12 + length]).unwrap());
            rest = &rest[16 + length..];
        }
        let value = |tag: &str, value: f32| SummaryValue { tag: tag.into(), simple_value: Some(value) };
        let value = vec![value("env/all/reward/total", 0.5), value("zero", 0.0)];
        let last = TensorboardEvent { wall_time: 1.5, step: 4, what: Some(What::Summary(Summary { value })) };
        assert_eq!((events.len(), &events[2]), (3, &last));
    }
}
