//! The checkpoints that are in a run's directory, and which of them is meant.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::registry;
use super::which_checkpoint::WhichCheckpoint;
use crate::records;
use crate::records::run_files::CONFIG_FILE;

/// Name of the directory in a run's own that holds its checkpoints.
const CHECKPOINTS: &str = "checkpoints";
/// Name of the file there with the metrics of its steps.
const METRICS: &str = "metrics.jsonl";

/// A checkpoint in a run's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCheckpoint {
    /// Updates that made it.
    pub step: u64,
    /// Where it is.
    pub directory: PathBuf,
}

/// Those that are there, the newest last.
pub fn checkpoints(run: &Path) -> Vec<RunCheckpoint> {
    let entries = std::fs::read_dir(run.join(CHECKPOINTS)).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    let numbered = |directory: PathBuf| Some(RunCheckpoint { step: step_of(&directory)?, directory });
    let mut found: Vec<RunCheckpoint> = paths.filter_map(numbered).collect();
    found.sort_by_key(|checkpoint| checkpoint.step);
    found
}

/// The updates that made a checkpoint of a run, which its name tells.
pub fn step_of(checkpoint: &Path) -> Option<u64> {
    checkpoint.parent()?.file_name().filter(|name| *name == CHECKPOINTS)?;
    checkpoint.file_name()?.to_str()?.parse().ok()
}

/// The checkpoint of a run that is meant.
pub fn choose(run: &Path, which: WhichCheckpoint) -> Result<RunCheckpoint> {
    let mut found = checkpoints(run);
    let Some(newest) = found.last() else { bail!("{} has no checkpoint yet", run.display()) };
    let step = match which {
        // A run whose best weights are its own may have none that are scored yet.
        WhichCheckpoint::Final if ends_with_best(run)? => best(run, &found).unwrap_or(newest.step),
        WhichCheckpoint::Final | WhichCheckpoint::Newest => newest.step,
        WhichCheckpoint::Step(step) => step,
        WhichCheckpoint::Best => best(run, &found)?,
    };
    let steps: Vec<String> = found.iter().map(|checkpoint| checkpoint.step.to_string()).collect();
    found.retain(|checkpoint| checkpoint.step == step);
    found.pop().with_context(|| {
        let steps = steps.join(", ");
        format!("{} has no checkpoint after {step} updates: there are those after {steps}", run.display())
    })
}

/// Whether the best weights of a run are its final ones, as its configuration says.
fn ends_with_best(run: &Path) -> Result<bool> {
    let path = run.join(CONFIG_FILE);
    if !path.exists() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let config: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(config["trainer"]["final_weights"] == "best")
}

/// The updates that made the checkpoint with the best held-out score.
fn best(run: &Path, found: &[RunCheckpoint]) -> Result<u64> {
    let path = run.join(METRICS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let metrics: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut held_out = registry::ranked(metrics.iter());
    held_out.scores.retain(|score| found.iter().any(|checkpoint| checkpoint.step == score.step));
    let best = held_out.best().map(|score| score.step);
    best.with_context(|| {
        format!("none of the checkpoints of {} has a held-out score: name one by its updates", run.display())
    })
}

/// The run that a checkpoint, or a directory that is one, is of.
pub fn run_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().take(3).find(|path| records::is_run(path)).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_weights_are_those_that_the_config_names() {
        let home = run(&[1, 2, 3], "{\"step\": 2, \"test/nll\": 1.0}\n{\"step\": 3, \"test/nll\": 2.0}\n");
        let chosen = || choose(home.path(), WhichCheckpoint::Final).unwrap().step;
        assert_eq!(chosen(), 3);
        std::fs::write(home.path().join(CONFIG_FILE), r#"{"trainer": {"final_weights": "best"}}"#).unwrap();
        assert_eq!(chosen(), 2);
        std::fs::write(home.path().join(METRICS), "").unwrap();
        assert_eq!(chosen(), 3, "nothing is scored yet");
    }

    #[test]
    fn of_comparisons_the_loss_is_the_score() {
        let lines = "{\"step\": 1, \"test/loss\": 0.5, \"test/nll\": 2.0}\n{\"step\": 2, \"test/loss\": 0.7, \"test/nll\": 1.0}\n";
        let home = run(&[1, 2], lines);
        assert_eq!(choose(home.path(), WhichCheckpoint::Best).unwrap().step, 1);
    }

    fn run(steps: &[u64], metrics: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for step in steps {
            std::fs::create_dir_all(home.path().join(CHECKPOINTS).join(format!("{step:06}"))).unwrap();
        }
        std::fs::write(home.path().join(METRICS), metrics).unwrap();
        home
    }

    #[test]
    fn a_checkpoint_is_chosen_by_age_by_updates_and_by_score() {
        let rewards: String = [(0, 0.9), (4, 0.5), (8, 0.75), (12, 0.5)]
            .map(|(step, reward)| format!("{{\"step\":{step},\"test/env/all/reward/total\":{reward}}}\n"))
            .concat();
        let home = run(&[12, 4, 8], &rewards);
        std::fs::create_dir(home.path().join(CHECKPOINTS).join("000016.partial")).unwrap();
        let step = |which: &str| choose(home.path(), which.parse().unwrap()).map(|chosen| chosen.step);
        assert_eq!((step("newest").unwrap(), step("best").unwrap(), step("4").unwrap()), (12, 8, 4));
        let refused = step("5").unwrap_err().to_string();
        assert!(refused.ends_with("has no checkpoint after 5 updates: there are those after 4, 8, 12"), "{refused}");
        let losses = "{\"step\":4,\"test/nll\":0.5}\n{\"step\":8,\"test/nll\":0.75}\n";
        let home = run(&[4, 8], losses);
        assert_eq!(choose(home.path(), WhichCheckpoint::Best).unwrap().step, 4);
        let home = run(&[4], "{\"step\":4}\n");
        assert!(choose(home.path(), WhichCheckpoint::Best).unwrap_err().to_string().contains("has a held-out score"));
        let home = run(&[], "");
        assert!(choose(home.path(), WhichCheckpoint::Newest).unwrap_err().to_string().contains("no checkpoint yet"));
        assert!("last".parse::<WhichCheckpoint>().is_err());
    }
}
