//! Metrics as an offline run of Weights & Biases: a log of `Record`s in protobuf, which `wandb sync` sends.
//!
//! The log has the form of LevelDB's: blocks of 32 KiB, in them chunks of a checksum, a length, a kind and bytes; seven
//! bytes before the first say what it is. The records are those of `wandb_internal.proto` in the public repository
//! wandb/wandb.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use prost::{Message, Oneof};
use serde_json::{Map, Value, json};

use super::crc::Crc;
use super::tracker::{TrackedRun, TrackedStep, Tracker, numbers};
use crate::time;

/// What a log begins with: `:W&B`, a number that all have, and the version of the format.
const HEADER: [u8; 7] = [b':', b'W', b'&', b'B', 0xE1, 0xBE, 0];
/// Bytes of a block, which no chunk crosses.
const BLOCK: usize = 32 * 1024;
/// Bytes before those of a chunk.
const CHUNK_HEADER: usize = 7;

/// What a chunk is of its record.
#[derive(Clone, Copy)]
enum Chunk {
    Full = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, tag = "1")]
    num: i64,
    #[prost(oneof = "Kind", tags = "2, 3, 17, 18")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "2")]
    History(History),
    #[prost(message, tag = "3")]
    Summary(Summary),
    #[prost(message, tag = "17")]
    Run(Run),
    #[prost(message, tag = "18")]
    Exit(Exit),
}

/// A key and its value: of a step, of the summary, of the config.
#[derive(Clone, PartialEq, Message)]
struct Item {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "16")]
    value_json: String,
}

#[derive(Clone, PartialEq, Message)]
struct History {
    #[prost(message, repeated, tag = "1")]
    item: Vec<Item>,
    #[prost(message, optional, tag = "2")]
    step: Option<HistoryStep>,
}

#[derive(Clone, PartialEq, Message)]
struct HistoryStep {
    #[prost(int64, tag = "1")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    update: Vec<Item>,
}

#[derive(Clone, PartialEq, Message)]
struct Run {
    #[prost(string, tag = "1")]
    run_id: String,
    #[prost(string, tag = "3")]
    project: String,
    #[prost(message, optional, tag = "4")]
    config: Option<Config>,
    #[prost(string, tag = "8")]
    display_name: String,
    #[prost(message, optional, tag = "17")]
    start_time: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct Config {
    #[prost(message, repeated, tag = "1")]
    update: Vec<Item>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Exit {
    #[prost(int32, tag = "1")]
    exit_code: i32,
    #[prost(int32, tag = "2")]
    runtime: i32,
}

/// A log of an offline run.
#[derive(Debug)]
pub struct Wandb {
    path: PathBuf,
    file: File,
    /// Bytes written.
    length: usize,
    /// Records written.
    records: i64,
    start_time: f64,
    /// Each metric's last value.
    latest: Map<String, Value>,
    /// When that was.
    latest_time: f64,
}

impl Wandb {
    /// Begins the log of a run below `directory`, in place of the one that it may have there already.
    pub fn create(directory: &Path, run: &TrackedRun) -> Result<Self> {
        let id = id_of(run);
        let own = match existing(directory, &id) {
            Some(own) => own,
            None => directory.join(format!("offline-run-{}-{id}", compact(run.start_time))),
        };
        std::fs::create_dir_all(&own).with_context(|| format!("cannot create {}", own.display()))?;
        let path = own.join(format!("run-{id}.wandb"));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let start_time = run.start_time;
        let (latest, latest_time) = (Map::new(), start_time);
        let mut log = Self { path, file, length: 0, records: 0, start_time, latest, latest_time };
        log.append(&HEADER)?;
        let config = run.config.as_object().into_iter().flatten().map(|(key, value)| item(key, value));
        log.write(Kind::Run(Run {
            run_id: id,
            project: run.project.clone(),
            config: Some(Config { update: config.collect() }),
            display_name: run.run_id.clone(),
            start_time: Some(Timestamp {
                seconds: start_time.floor() as i64,
                nanos: (start_time.fract() * 1e9) as i32,
            }),
        }))?;
        Ok(log)
    }

    fn write(&mut self, kind: Kind) -> Result<()> {
        self.records += 1;
        let bytes = Record { num: self.records, kind: Some(kind) }.encode_to_vec();
        let framed = framed(self.length, &bytes);
        self.append(&framed)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.length += bytes.len();
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Tracker for Wandb {
    fn step(&mut self, step: &TrackedStep<'_>) -> Result<()> {
        let own = [
            ("_step", json!(step.number)),
            ("_timestamp", json!(step.time)),
            ("_runtime", json!(step.time - self.start_time)),
        ];
        let mut items: Vec<Item> = own.iter().map(|(key, value)| item(key, value)).collect();
        for (key, _) in numbers(step.metrics) {
            let value = &step.metrics[key];
            items.push(item(key, value));
            self.latest.insert(key.to_owned(), value.clone());
        }
        self.latest_time = step.time;
        self.latest.extend(own.into_iter().map(|(key, value)| (key.to_owned(), value)));
        self.write(Kind::History(History { item: items, step: Some(HistoryStep { num: step.number as i64 }) }))
    }

    fn finish(&mut self) -> Result<()> {
        let update = self.latest.iter().map(|(key, value)| item(key, value)).collect();
        self.write(Kind::Summary(Summary { update }))?;
        self.write(Kind::Exit(Exit { exit_code: 0, runtime: (self.latest_time - self.start_time) as i32 }))
    }
}

fn item(key: &str, value: &Value) -> Item {
    Item { key: key.to_owned(), value_json: value.to_string() }
}

/// A record in chunks, for a log that has `length` bytes.
fn framed(mut length: usize, mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + CHUNK_HEADER);
    let mut is_first = true;
    loop {
        let room = BLOCK - length % BLOCK;
        if room < CHUNK_HEADER {
            out.resize(out.len() + room, 0);
            length += room;
            continue;
        }
        let (chunk, rest) = bytes.split_at(bytes.len().min(room - CHUNK_HEADER));
        let kind = match (is_first, rest.is_empty()) {
            (true, true) => Chunk::Full,
            (true, false) => Chunk::First,
            (false, false) => Chunk::Middle,
            (false, true) => Chunk::Last,
        } as u8;
        out.extend(Crc::Ieee.of(&[&[kind], chunk]).to_le_bytes());
        // A chunk is no longer than a block.
        out.extend((chunk.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend(chunk);
        length += CHUNK_HEADER + chunk.len();
        if rest.is_empty() {
            return out;
        }
        (bytes, is_first) = (rest, false);
    }
}

/// The run's id at Weights & Biases, which stays the same when it is gone on with.
fn id_of(run: &TrackedRun) -> String {
    let plain = |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect() };
    let instance = plain(&run.instance);
    // The end of it is random, the beginning a time.
    let id: String = instance.chars().skip(instance.len().saturating_sub(12)).collect();
    if id.is_empty() { plain(&run.run_id) } else { id }
}

fn existing(directory: &Path, id: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut own = entries.filter_map(|entry| Some(entry.ok()?.path()));
    own.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&format!("-{id}"))))
}

/// A time as the names of offline runs have it: `20261121_150405`.
fn compact(at: f64) -> String {
    time::text(at).replace(['-', ':'], "").replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the records in a log, as LevelDB's format has them.
    fn records(log: &[u8]) -> Vec<Vec<u8>> {
        let (mut at, mut records, mut open) = (HEADER.len(), Vec::new(), Vec::new());
        while at < log.len() {
            let room = BLOCK - at % BLOCK;
            if room < CHUNK_HEADER {
                at += room;
                continue;
            }
            let length = u16::from_le_bytes([log[at + 4], log[at + 5]]) as usize;
            let (kind, bytes) = (log[at + 6], &log[at + CHUNK_HEADER..at + CHUNK_HEADER + length]);
            assert_eq!(log[at..at + 4], Crc::Ieee.of(&[&[kind], bytes]).to_le_bytes());
            open.extend_from_slice(bytes);
            if kind == Chunk::Full as u8 || kind == Chunk::Last as u8 {
                records.push(std::mem::take(&mut open));
            }
            at += CHUNK_HEADER + length;
        }
        assert!(open.is_empty());
        records
    }

    #[test]
    fn records_of_any_length_are_read_back() {
        let mut log = HEADER.to_vec();
        let lengths = [0, 1, BLOCK - 40, 20, 3, BLOCK, 3 * BLOCK, 9, BLOCK - 3, 2];
        let written: Vec<Vec<u8>> = lengths.iter().map(|length| vec![*length as u8; *length]).collect();
        for bytes in &written {
            let framed = framed(log.len(), bytes);
            log.extend(framed);
        }
        assert_eq!(records(&log), written);
    }

    #[test]
    fn a_run_that_is_gone_on_with_stays_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let run = TrackedRun {
            run_id: "r-1".into(),
            project: "p".into(),
            instance: "0190-aaaa-bbbbccccdddd".into(),
            config: json!({ "seed": 1 }),
            start_time: 1.0,
        };
        let metrics = json!({ "step": 0, "reward": 0.5, "name": "x" });
        let step = TrackedStep { number: 0, time: 3.0, metrics: metrics.as_object().unwrap() };
        Wandb::create(directory.path(), &run).unwrap().step(&step).unwrap();
        let mut again = Wandb::create(directory.path(), &TrackedRun { start_time: 9.0, ..run }).unwrap();
        again.step(&step).unwrap();
        again.finish().unwrap();
        assert_eq!(
            again.path,
            directory.path().join("offline-run-19700101_000001-bbbbccccdddd/run-bbbbccccdddd.wandb")
        );
        let kinds: Vec<Kind> = records(&std::fs::read(&again.path).unwrap())
            .iter()
            .map(|bytes| Record::decode(bytes.as_slice()).unwrap().kind.unwrap())
            .collect();
        assert!(matches!(kinds.as_slice(), [Kind::Run(_), Kind::History(_), Kind::Summary(_), Kind::Exit(_)]));
    }
}
