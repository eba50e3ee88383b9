//! What the tools know of a run, beside what it records itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::write_whole;
use super::guard::Guarded;

use super::metrics::Metrics;
use crate::error::ToolError;

/// The directory of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunHome(PathBuf);

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
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What the tools know of it.
    pub(crate) fn record_file(&self) -> PathBuf {
        self.0.join("tools.json")
    }

    /// What its trainer printed, a JSON object a line.
    pub(crate) fn events(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }

    /// What its trainer logged.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("train.log")
    }

    /// How it stands, for people.
    pub(crate) fn progress(&self) -> PathBuf {
        self.0.join("progress.txt")
    }

    /// What it was begun with.
    pub(crate) fn setup(&self) -> PathBuf {
        self.0.join("setup")
    }

    /// Whether its trainer has ever begun, if only to make its store.
    pub(crate) fn is_begun(&self) -> bool {
        ["config.json", "fulgurite.db"].iter().any(|file| self.0.join(file).is_file())
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::read(&self.0.join("metrics.jsonl"))
    }

    pub(crate) fn record(&self) -> Result<RunRecord, ToolError> {
        let path = self.record_file();
        let text = fs::read_to_string(&path).map_err(ToolError::file(&path))?;
        serde_json::from_str(&text)
            .map_err(|error| ToolError::Refused(format!("{} is not what it was: {error}", path.display())))
    }

    pub(crate) fn write(&self, record: &RunRecord) -> Result<(), ToolError> {
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        write_whole(&self.record_file(), &text)
    }

    /// The checkpoints that are there, by the updates that made them.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.0.join("checkpoints")).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<u64> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Where the checkpoint after so many updates is.
    pub(crate) fn checkpoint(&self, step: u64) -> PathBuf {
        self.0.join("checkpoints").join(format!("{step:06}"))
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
