//! What is told to trackers, and what a tracker is.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::records::run_directory::run_file;
use crate::time;

/// What trackers are told of a run.
#[derive(Clone, Debug)]
pub struct TrackedRun {
    /// Its id.
    pub run_id: String,
    /// What it is part of.
    pub project: String,
    /// The same as long as it is the same run, and no other's.
    pub instance: String,
    /// Its config.
    pub config: Value,
    /// When it was begun, in seconds since 1970.
    pub start_time: f64,
}

impl TrackedRun {
    /// The run in a directory, as its own file tells of it.
    pub fn of_directory(directory: &Path, project: &str) -> Result<Self> {
        let config = run_file(directory)?;
        let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
        let instance = text("instance");
        // The time is in the instance's id, so that a resumed run began when it was begun.
        let began = Uuid::parse_str(&instance).ok().and_then(|id| id.get_timestamp());
        let start_time = began.map_or_else(time::now, |began| began.to_unix().0 as f64);
        Ok(Self { run_id: text("run_id"), project: project.to_owned(), instance, config, start_time })
    }
}

/// A step, as trackers are told of it.
#[derive(Clone, Copy, Debug)]
pub struct TrackedStep<'a> {
    /// Updates before it.
    pub number: u64,
    /// When it was over, in seconds since 1970.
    pub time: f64,
    /// Its metrics.
    pub metrics: &'a Map<String, Value>,
}

/// Where metrics are written for somebody else's program.
pub trait Tracker: Send {
    /// Writes a step's metrics; each step is told of once, in their order.
    fn step(&mut self, step: &TrackedStep<'_>) -> Result<()>;

    /// The run is over.
    fn finish(&mut self) -> Result<()>;
}

/// The numbers of a step by their names.
pub fn numbers(metrics: &Map<String, Value>) -> impl Iterator<Item = (&str, f64)> {
    let metrics = metrics.iter().filter(|(key, _)| *key != "step");
    metrics.filter_map(|(key, value)| Some((key.as_str(), value.as_f64()?)))
}
