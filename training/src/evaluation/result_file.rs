//! What an evaluation came to, in a file beside its store.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_lab::records;
use fulgurite_lab::records::open_store::store_url;
use fulgurite_lab::runs::checkpoints::run_of;
use fulgurite_store::Store;
use fulgurite_trainer::{EVALUATION_KIND, EvaluatedTasks, ScoreSummary, TaskScore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::Plan;

/// Name of the file in the directory of an evaluation.
const RESULT_FILE: &str = "evaluation.json";

/// What an evaluation came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultFile {
    /// The run of the evaluation in the store.
    pub run_id: String,
    /// Where it is.
    #[serde(skip)]
    pub directory: PathBuf,
    /// `held_out` or `final`.
    pub evaluated: String,
    /// The same for the same weights.
    pub weights: String,
    /// What they are, for people.
    pub weights_from: String,
    /// Updates that made them, as far as is known.
    pub step: u64,
    /// Changes with the tasks.
    pub tasks_digest: String,
    /// Rollouts of each task.
    pub samples: usize,
    /// The seed of the samples.
    pub seed: u64,
    /// What each task earned.
    pub scores: Vec<TaskScore>,
    /// Seconds that it took, of the command that ended it.
    pub wall_seconds: f64,
}

impl ResultFile {
    /// That of a directory, if it is there.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(RESULT_FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let read: Self = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Some(Self { directory: directory.to_owned(), ..read }))
    }

    /// Writes it, whole or not at all.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("cannot write the scores")?;
        records::write_whole(&self.directory.join(RESULT_FILE), &format!("{text}\n"))
    }

    /// The score in a few words.
    fn in_words(&self) -> String {
        let summary = ScoreSummary::of(&self.scores, self.samples, 1.0);
        let ScoreSummary { tasks, rollouts, reward, .. } = summary;
        match reward {
            Some(reward) => format!("reward {:+.3} of {rollouts} rollouts at {tasks} tasks", reward.value),
            None => format!("none of the rollouts at {tasks} tasks succeeded"),
        }
    }
}

/// A score that there is already.
pub struct FirstScore {
    /// The run that has it.
    pub run_id: String,
    /// The score in a few words.
    pub words: String,
}

/// All evaluations below a directory of runs, by name.
pub fn evaluations(runs: &Path) -> Result<Vec<ResultFile>> {
    let mut directories: Vec<PathBuf> =
        std::fs::read_dir(runs).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    directories.sort();
    directories.iter().filter_map(|directory| ResultFile::read(directory).transpose()).collect()
}

/// The first score of the plan's weights on its final tasks, by whomever: an evaluation beside it, one in a store that is
/// shared, or the run that made the weights.
pub async fn first_final_score(plan: &Plan<'_>) -> Result<Option<FirstScore>> {
    if plan.evaluated() != EvaluatedTasks::Final {
        return Ok(None);
    }
    let (weights, tasks_digest) = (&plan.weights.identity, plan.tasks_digest());
    let is_same = |result: &ResultFile| {
        (result.evaluated.as_str(), &result.weights, &result.tasks_digest) == ("final", weights, &tasks_digest)
    };
    let others = evaluations(&plan.loaded.resolve(&plan.loaded.config.run.directory))?;
    if let Some(first) = others.into_iter().find(is_same) {
        let words = first.in_words();
        return Ok(Some(FirstScore { run_id: first.run_id, words }));
    }
    if let Some(first) = score_at_the_end_of_training(plan)? {
        return Ok(Some(first));
    }
    if plan.loaded.config.store.url.is_none() {
        return Ok(None);
    }
    let Ok(store) = Store::open_read_only(&store_url(plan.loaded)).await else { return Ok(None) };
    for run in store.runs().all().await? {
        let described = &run.config["evaluation"];
        let is_same = run.config["kind"] == EVALUATION_KIND
            && described["tasks"] == "final"
            && described["weights"] == **weights
            && described["tasks_digest"] == *tasks_digest;
        if is_same && let Some(step) = store.runs().steps(&run.run_id).await?.first() {
            return Ok(Some(scored(run.run_id, &step.metrics)));
        }
    }
    Ok(None)
}

/// What a training run scored with these very weights when it was over.
fn score_at_the_end_of_training(plan: &Plan<'_>) -> Result<Option<FirstScore>> {
    let checkpoint = plan.options.checkpoint.as_deref();
    let Some(run) = checkpoint.and_then(run_of) else { return Ok(None) };
    let trained = records::config_of_run(&run)?;
    let tasks = trained.config.tasks.as_ref().and_then(|tasks| tasks.last.as_ref());
    let Some(tasks) = tasks.and_then(|tasks| tasks.load("final", &trained.directory).ok()) else { return Ok(None) };
    if tasks != plan.tasks {
        return Ok(None);
    }
    let text = match std::fs::read_to_string(run.join("metrics.jsonl")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", run.join("metrics.jsonl").display()))?,
    };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = lines.rev().find(|metrics| metrics["step"] == plan.weights.step);
    let last = last.filter(|metrics| metrics["final/env/all/reward/total"].is_number());
    let run_id = records::run_file(&run)?["run_id"].as_str().unwrap_or_default().to_owned();
    Ok(last.map(|metrics| scored(run_id, &metrics)))
}

/// A score as the metrics of its end tell it.
fn scored(run_id: String, metrics: &Value) -> FirstScore {
    let number = |name: &str| metrics[format!("final/env/all/{name}")].as_f64();
    let rollouts = number("total_episodes").unwrap_or(0.0);
    let words = match number("reward/total") {
        Some(reward) => format!("reward {reward:+.3} of {rollouts} rollouts"),
        None => "none of the rollouts succeeded".to_owned(),
    };
    FirstScore { run_id, words }
}
