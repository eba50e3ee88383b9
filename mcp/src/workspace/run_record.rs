//! What the tools know of a run, beside what it records itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{read_text, write_whole};
use super::guard::Guarded;
use super::metrics::Metrics;
use super::seal::Seal;
use crate::error::ToolError;

/// The directory of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunHome {
    path: PathBuf,
    seal: Seal,
}

/// What the tools know of a run, as its file has it.
#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    record: RunRecord,
    #[serde(default)]
    seal: String,
}

/// What a seal is made of.
fn sealed_text(record: &RunRecord) -> String {
    // Texts and numbers can always be written; and no seal is that of no text.
    serde_json::to_string(record).unwrap_or_default()
}

/// What the tools know of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) name: String,
    /// The config that it was begun with.
    pub(crate) config: PathBuf,
    /// Values in place of those of the config, as `--set` takes them.
    pub(crate) settings: Vec<String>,
    /// What it learns by.
    pub(crate) objective: String,
    /// Which grader of the tools it has.
    pub(crate) grader: Option<String>,
    /// What must not change while it goes on.
    pub(crate) guarded: Guarded,
    /// Checkpoints that were given a name, by the updates that made them.
    pub(crate) checkpoints: BTreeMap<String, u64>,
    /// The greatest reward that was worth a checkpoint.
    pub(crate) best_reward: Option<f64>,
    /// Whether it is over.
    pub(crate) finished: bool,
}

impl RunRecord {
    /// Whether it learns from data that are there, so that nobody samples for it.
    pub(crate) fn learns_from_data(&self) -> bool {
        learns_from_data(&self.objective)
    }
}

/// Whether an objective learns from data that are there.
pub(crate) fn learns_from_data(objective: &str) -> bool {
    !matches!(objective, "grpo" | "on_policy_distillation")
}

impl RunHome {
    pub(crate) fn new(path: PathBuf, seal: Seal) -> Self {
        Self { path, seal }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What the tools know of it.
    pub(crate) fn record_file(&self) -> PathBuf {
        self.path.join("tools.json")
    }

    /// What its trainer printed, a JSON object a line.
    pub(crate) fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// What its trainer logged.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("train.log")
    }

    /// How it stands, for people.
    pub(crate) fn progress(&self) -> PathBuf {
        self.path.join("progress.txt")
    }

    /// What it was begun with.
    pub(crate) fn setup(&self) -> PathBuf {
        self.path.join("setup")
    }

    /// Whether its trainer has ever begun, if only to make its store.
    pub(crate) fn has_started(&self) -> bool {
        ["config.json", "fulgurite.db"].iter().any(|file| self.path.join(file).is_file())
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::read(&self.path.join("metrics.jsonl"))
    }

    /// What is known of it, for tools that only look.
    pub(crate) fn record(&self) -> Result<RunRecord, ToolError> {
        self.read().map(|sealed| sealed.record)
    }

    /// What is known of it, for tools that do what it says.
    ///
    /// # Errors
    /// If it is not what these tools wrote of this run: its seal is missing, or of something else.
    pub(crate) fn sealed_record(&self) -> Result<RunRecord, ToolError> {
        let Sealed { record, seal } = self.read()?;
        match record.name == self.name() && self.seal.is_of(&seal, &sealed_text(&record)) {
            true => Ok(record),
            false => Err(ToolError::Unsealed { path: self.record_file(), run: self.name() }),
        }
    }

    fn read(&self) -> Result<Sealed, ToolError> {
        let path = self.record_file();
        let text = read_text(&path).map_err(ToolError::file(&path))?;
        serde_json::from_str(&text)
            .map_err(|error| ToolError::Refused(format!("{} is not what it was: {error}", path.display())))
    }

    pub(crate) fn write(&self, record: &RunRecord) -> Result<(), ToolError> {
        let sealed = Sealed { seal: self.seal.of(&sealed_text(record)), record: record.clone() };
        let text = serde_json::to_string_pretty(&sealed).map_err(|error| {
            ToolError::Refused(format!("{} cannot be written: {error}", self.record_file().display()))
        })?;
        write_whole(&self.record_file(), &text)
    }

    /// The checkpoints that are there, by the updates that made them.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.path.join("checkpoints")).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<u64> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Where the checkpoint after so many updates is.
    pub(crate) fn checkpoint(&self, step: u64) -> PathBuf {
        self.path.join("checkpoints").join(format!("{step:06}"))
    }

    /// The checkpoint that is meant: by its name, by its updates, or the newest.
    pub(crate) fn chosen(&self, record: &RunRecord, named: Option<&str>) -> Result<u64, ToolError> {
        let there = self.checkpoints();
        let step = match named {
            None => there.last().copied(),
            Some(named) => record.checkpoints.get(named).copied().or_else(|| named.parse().ok()),
        };
        step.filter(|step| there.contains(step)).ok_or_else(|| ToolError::Unknown {
            kind: "checkpoint",
            name: named.unwrap_or("newest").to_owned(),
            known: record.checkpoints.keys().cloned().chain(there.iter().map(u64::to_string)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SealKey;

    #[test]
    fn a_record_that_somebody_rewrote_is_not_acted_upon() {
        let directory = tempfile::tempdir().unwrap();
        let home = |name: &str, key: u8| {
            fs::create_dir_all(directory.path().join(name)).unwrap();
            RunHome::new(directory.path().join(name), Seal::new(SealKey([key; 32])))
        };
        let one = home("one", 1);
        let record = RunRecord {
            name: one.name(),
            config: "setup/config.toml".into(),
            settings: vec!["trainer.learning_rate=0.001".to_owned()],
            objective: "grpo".to_owned(),
            grader: None,
            guarded: Guarded::default(),
            checkpoints: BTreeMap::new(),
            best_reward: Some(0.1 + 0.2),
            finished: false,
        };
        one.write(&record).unwrap();
        assert_eq!(one.sealed_record().unwrap().best_reward, record.best_reward);
        let message = home("one", 2).sealed_record().unwrap_err().to_string();
        assert!(message.contains("tools.json was not written by these tools"), "{message}");
        let text = read_text(&one.record_file()).unwrap();
        let other = home("two", 1);
        fs::write(other.record_file(), &text).unwrap();
        assert!(other.sealed_record().is_err() && other.record().is_ok());
        for (from, to) in
            [("0.001", "0.1"), ("config.toml", "mine.toml"), ("\"finished\": false", "\"finished\": true")]
        {
            assert!(text.contains(from));
            fs::write(one.record_file(), text.replace(from, to)).unwrap();
            assert!(one.sealed_record().is_err(), "{from}");
        }
    }
}
