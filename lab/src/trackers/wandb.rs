//! Weights & Biases, by its own package in a Python process that hears every step.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};

use super::tracker::{TrackedRun, TrackedStep, Tracker, numbers};

/// What the process runs.
const PROGRAM: &str = include_str!("wandb.py");

/// The process that passes a run on.
#[derive(Debug)]
pub struct Wandb {
    python: PathBuf,
    process: Child,
    /// Where it reads; none once the run is over.
    steps: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
}

impl Wandb {
    /// Begins the run in `directory`, which gets a directory `wandb`, in place of what that has of the run already.
    ///
    /// # Errors
    ///
    /// If `python` is no interpreter, has no package `wandb`, or the package refuses the run.
    pub fn create(python: &Path, directory: &Path, run: &TrackedRun) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // An interrupt of the terminal is for this process.
        let mut process = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {} ([trackers] python)", python.display()))?;
        let (steps, answers) = (process.stdin.take(), process.stdout.take().map(BufReader::new));
        let mut tracker = Self { python: python.to_owned(), process, steps, answers };
        tracker.tell(&json!({
            "directory": directory,
            "id": id_of(run),
            "project": run.project,
            "name": run.run_id,
            "config": run.config,
        }))?;
        match tracker.answer().as_str() {
            "begun" => Ok(tracker),
            error => bail!(tracker.failure(error)),
        }
    }

    fn tell(&mut self, event: &Value) -> Result<()> {
        let steps = self.steps.as_mut().ok_or_else(|| anyhow!("the run is over"))?;
        match writeln!(steps, "{event}") {
            Ok(()) => Ok(()),
            Err(_) => {
                let error = self.answer();
                bail!(self.failure(&error))
            }
        }
    }

    /// The next line that the process writes; empty if it has ended.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        if let Some(answers) = &mut self.answers {
            // What cannot be read is told of as the end that it is.
            answers.read_line(&mut line).ok();
        }
        line.trim().to_owned()
    }

    /// Why the process ended, by its last line.
    fn failure(&self, error: &str) -> String {
        let python = self.python.display();
        match error {
            "" => format!("{python} ([trackers] python) ended"),
            error if error.contains("No module named 'wandb'") => {
                format!("{python} ([trackers] python) has no package wandb (help: {python} -m pip install wandb)")
            }
            error => format!("wandb of {python} ([trackers] python): {error}"),
        }
    }
}

impl Tracker for Wandb {
    fn step(&mut self, step: &TrackedStep<'_>) -> Result<()> {
        let metrics: Map<String, Value> =
            numbers(step.metrics).map(|(key, _)| (key.to_owned(), step.metrics[key].clone())).collect();
        self.tell(&json!({ "event": "step", "step": step.number, "time": step.time, "metrics": metrics }))
    }

    fn finish(&mut self) -> Result<()> {
        self.tell(&json!({ "event": "finish" }))?;
        self.steps = None;
        let error = self.answer();
        if !self.process.wait()?.success() {
            bail!(self.failure(&error));
        }
        Ok(())
    }
}

impl Drop for Wandb {
    /// The process ends by itself once nothing more can come.
    fn drop(&mut self) {
        self.steps = None;
        self.process.wait().ok();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_without_the_package_is_named_with_what_installs_it() {
        let directory = tempfile::tempdir().unwrap();
        let python = directory.path().join("python");
        let script = "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'wandb'\"\nexit 1\n";
        std::fs::write(&python, script).unwrap();
        std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let run = TrackedRun {
            run_id: "r-1".into(),
            project: "p".into(),
            instance: "0190-aaaa-bbbbccccdddd".into(),
            config: json!({}),
            start_time: 1.0,
        };
        let error = Wandb::create(&python, directory.path(), &run).unwrap_err().to_string();
        let python = python.display();
        let expected =
            format!("{python} ([trackers] python) has no package wandb (help: {python} -m pip install wandb)");
        assert_eq!(error, expected);
        let missing = Wandb::create(Path::new("/no/such/python"), directory.path(), &run).unwrap_err().to_string();
        assert_eq!(missing, "cannot start /no/such/python ([trackers] python)");
        assert_eq!(id_of(&run), "bbbbccccdddd");
    }
}
