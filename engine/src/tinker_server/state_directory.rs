use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_backends::tinker::wire::{CheckpointPath, FinishSessionRequest, LoraConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::EngineError;
use crate::files::sync_directory;

/// Notes of a client's, kept as they came.
pub(super) type UserMetadata = Map<String, Value>;

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    // A clock before 1970 is none that times could be told by.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A time as RFC 3339 has it, in UTC. Dates follow from days by Hinnant's `civil_from_days`.
pub(super) fn iso_time(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, of_day) = (whole / 86_400 + 719_468, whole % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months are counted from March, so that the leap day is the last.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A session, as long as anything of it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) session_id: String,
    pub(super) created: f64,
    pub(super) tags: Vec<String>,
    pub(super) display_name: Option<String>,
    pub(super) user_metadata: Option<UserMetadata>,
    #[serde(default)]
    pub(super) project_id: Option<String>,
    pub(super) is_over: bool,
    /// How its client ended it; none where that fell silent.
    #[serde(default)]
    pub(super) finish: Option<FinishSessionRequest>,
}

/// A training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    pub(super) run_id: String,
    /// Empty for a copy, which nobody trains.
    pub(super) session_id: String,
    /// Its own, where its session has none for it.
    #[serde(default)]
    pub(super) project_id: Option<String>,
    pub(super) base_model: String,
    /// The adapter that it trains; all weights without one.
    #[serde(default)]
    pub(super) adapter: Option<LoraConfig>,
    pub(super) last_request: f64,
    pub(super) user_metadata: Option<UserMetadata>,
    /// The weights that it has put in flight last, below the state directory.
    #[serde(default)]
    pub(super) inflight: Option<PathBuf>,
}

/// A checkpoint that a client has named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CheckpointRecord {
    /// `tinker://RUN/KIND/NAME`.
    pub(super) path: String,
    pub(super) base_model: String,
    /// The adapter that it holds; all weights without one.
    #[serde(default)]
    pub(super) adapter: Option<LoraConfig>,
    /// Where its files are, below the state directory.
    pub(super) directory: PathBuf,
    pub(super) created: f64,
    pub(super) size_bytes: u64,
    pub(super) public: bool,
    /// When it may be deleted.
    pub(super) expires: Option<f64>,
    pub(super) user_metadata: Option<UserMetadata>,
}

/// What a sampling session samples from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SampledWeights {
    /// The base model's.
    Base,
    /// Those of a checkpoint, by its path.
    Checkpoint(String),
    /// Those that were saved for this sampling session alone, below the state directory.
    Own(PathBuf),
    /// Those that a training run has put in flight last.
    Inflight(String),
}

/// A sampling session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SamplerRecord {
    pub(super) sampler_id: String,
    pub(super) session_id: String,
    pub(super) base_model: String,
    pub(super) weights: SampledWeights,
    /// Copies of the client that have asked to be told apart.
    #[serde(default)]
    pub(super) copies: u64,
}

/// What is remembered, by its id, one file each.
pub(super) trait Record: Serialize + DeserializeOwned {
    /// The directory of its kind.
    const KIND: &'static str;

    fn id(&self) -> &str;
}

macro_rules! records {
    ($($record:ty, $kind:literal, $id:ident;)*) => {$(
        impl Record for $record {
            const KIND: &'static str = $kind;

            fn id(&self) -> &str {
                &self.$id
            }
        }
    )*};
}

records! {
    SessionRecord, "sessions", session_id;
    RunRecord, "runs", run_id;
    CheckpointRecord, "checkpoints", path;
    SamplerRecord, "samplers", sampler_id;
}

/// The directory that outlives the process: small records, and the weights that some of them tell of. It is made when
/// something is first kept in it.
#[derive(Clone, Debug)]
pub(super) struct StateDirectory {
    root: PathBuf,
}

impl StateDirectory {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where something below it is.
    pub(super) fn resolve(&self, directory: &Path) -> PathBuf {
        self.root.join(directory)
    }

    /// A place for a checkpoint's files that nothing is at, below the state directory.
    pub(super) fn place_of(&self, path: &CheckpointPath, id: &str) -> PathBuf {
        let parent = Path::new("weights").join(&path.run).join(path.kind.segment());
        let named = parent.join(&path.name);
        match self.resolve(&named).exists() {
            false => named,
            true => parent.join(format!("{}.{id}", path.name)),
        }
    }

    /// A place for the weights of one sampling session, below the state directory.
    pub(super) fn place_of_sampler(&self, sampler_id: &str) -> PathBuf {
        Path::new("weights").join("samplers").join(sampler_id)
    }

    /// All records of a kind.
    pub(super) fn read<R: Record>(&self) -> Result<BTreeMap<String, R>, EngineError> {
        let directory = self.root.join(R::KIND);
        let mut records = BTreeMap::new();
        if !directory.exists() {
            return Ok(records);
        }
        for entry in std::fs::read_dir(&directory).map_err(EngineError::io("read", &directory))? {
            let path = entry.map_err(EngineError::io("read", &directory))?.path();
            // What a crash left half written was not acknowledged.
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read(&path).map_err(EngineError::io("read", &path))?;
            let malformed = |error: serde_json::Error| EngineError::Malformed {
                path: path.clone(),
                message: format!("not a record of {}: {error}", R::KIND),
            };
            let record: R = serde_json::from_slice(&text).map_err(malformed)?;
            records.insert(record.id().to_owned(), record);
        }
        Ok(records)
    }

    /// Keeps a record in the place of one before, durably.
    pub(super) fn keep<R: Record>(&self, record: &R) -> Result<(), EngineError> {
        let path = self.file_of::<R>(record.id());
        let malformed = |error: serde_json::Error| EngineError::Malformed {
            path: path.clone(),
            message: format!("cannot be written: {error}"),
        };
        let json = serde_json::to_vec_pretty(record).map_err(malformed)?;
        let directory = self.root.join(R::KIND);
        std::fs::create_dir_all(&directory).map_err(EngineError::io("create", &directory))?;
        let fresh = path.with_extension("new");
        let write = |mut file: File| file.write_all(&json).and_then(|()| file.sync_all());
        File::create(&fresh).and_then(write).map_err(EngineError::io("write", &fresh))?;
        std::fs::rename(&fresh, &path).map_err(EngineError::io("write", &path))?;
        sync_directory(&directory)
    }

    /// Forgets a record, if there is one.
    pub(super) fn forget<R: Record>(&self, id: &str) -> Result<(), EngineError> {
        let path = self.file_of::<R>(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(EngineError::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Deletes weights, if they are there.
    pub(super) fn delete_weights(&self, directory: &Path) -> Result<(), EngineError> {
        let path = self.resolve(directory);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(EngineError::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Has the same weights at another place, too. Their files are never written again, so both are the same files.
    pub(super) fn copy_weights(&self, from: &Path, to: &Path) -> Result<(), EngineError> {
        let to = self.resolve(to);
        std::fs::create_dir_all(&to).map_err(EngineError::io("create", &to))?;
        for (name, file, _) in self.files(from)? {
            let copy = to.join(name);
            std::fs::hard_link(file, &copy).map_err(EngineError::io("write", &copy))?;
        }
        sync_directory(&to)
    }

    /// The files in a directory of weights, by their names: where they are, and their bytes.
    pub(super) fn files(&self, directory: &Path) -> Result<Vec<(String, PathBuf, u64)>, EngineError> {
        let root = self.resolve(directory);
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.path(), entry.metadata()?.len()))
        };
        let files = || std::fs::read_dir(&root)?.map(file).collect::<std::io::Result<Vec<_>>>();
        let mut files = files().map_err(EngineError::io("read", &root))?;
        files.sort();
        Ok(files)
    }

    /// Bytes of the files in a directory of weights.
    pub(super) fn size_of(&self, directory: &Path) -> Result<u64, EngineError> {
        Ok(self.files(directory)?.into_iter().map(|(_, _, size)| size).sum())
    }

    /// Ids are of letters, digits, hyphens, dots and colons, but for a checkpoint's path.
    fn file_of<R: Record>(&self, id: &str) -> PathBuf {
        self.root.join(R::KIND).join(format!("{}.json", id.replace('/', "%")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(id: &str, weights: SampledWeights) -> SamplerRecord {
        SamplerRecord { sampler_id: id.into(), session_id: "s".into(), base_model: "b".into(), weights, copies: 0 }
    }

    #[test]
    fn times_are_dates_of_the_calendar() {
        assert_eq!(iso_time(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_time(951_827_696.5), "2000-02-29T12:34:56Z");
        assert_eq!(iso_time(1_798_761_599.0), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn records_are_read_back_and_half_written_ones_are_not_there() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(home.path().join("state"));
        assert!(state.read::<SamplerRecord>().unwrap().is_empty());
        assert!(!home.path().join("state").exists(), "nothing is made before it is needed");
        let first = sampler("s:sample:0", SampledWeights::Base);
        let second = sampler("s:sample:1", SampledWeights::Checkpoint("tinker://r/sampler_weights/a".into()));
        for record in [&first, &second, &first] {
            state.keep(record).unwrap();
        }
        std::fs::write(home.path().join("state/samplers/x.new"), "{").unwrap();
        let read = state.read::<SamplerRecord>().unwrap();
        assert_eq!(read.into_values().collect::<Vec<_>>(), [first, second]);
        state.forget::<SamplerRecord>("s:sample:0").unwrap();
        state.forget::<SamplerRecord>("s:sample:0").unwrap();
        assert_eq!(state.read::<SamplerRecord>().unwrap().len(), 1);
        std::fs::write(home.path().join("state/samplers/x.json"), "{").unwrap();
        let error = state.read::<SamplerRecord>().unwrap_err();
        assert!(error.to_string().contains("x.json"), "{error}");
    }
}
