//! Plays the runs of a sweep: each a child process that trains, so many at a time.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fulgurite_engine::EngineOptions;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::capacity::{model_directory, processors};
use super::plan::{SweepPlan, SweepRun};
use super::scores;
use crate::interruptions::Interruptions;
use crate::records::exclusive_lock::is_run_held;
use crate::records::run_files::{CONFIG_FILE, STORE_FILE};

/// Directory in the sweep's of what runs print.
const LOGS: &str = "logs";

/// How often it is looked at what cannot tell that it has changed: files of metrics, locks, models that are made.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How a run of a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is over.
    Ended,
    /// It was interrupted after so many updates as were asked for.
    Paused,
    /// It failed; the first line of its error.
    Failed(String),
}

/// How runs are played.
pub struct Execution<'a> {
    /// What is to be done.
    pub plan: &'a SweepPlan,
    /// The sweep's directory.
    pub directory: &'a Path,
    /// Runs at a time.
    pub parallel: usize,
}

impl Execution<'_> {
    /// Plays `runs` until each has ended, or has made `until` updates, and tells of each.
    ///
    /// # Errors
    /// Where it is interrupted, once the runs have been, too.
    pub async fn play(
        &self,
        runs: Vec<SweepRun>,
        until: Option<u64>,
        report: &mut dyn FnMut(&SweepRun, &Outcome),
    ) -> Result<Vec<(SweepRun, Outcome)>> {
        let logs = self.directory.join(LOGS);
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        let mut interruptions = Interruptions::listen()?;
        let (stop, stopped) = watch::channel(false);
        let (mut waiting, mut playing, mut ended) = (runs, JoinSet::new(), Vec::new());
        // The model directory that each run which is playing may be making.
        let mut models: HashMap<String, PathBuf> = HashMap::new();
        loop {
            while playing.len() < self.parallel
                && let Some(next) = self.next(&waiting, &models)?
            {
                let run = waiting.remove(next);
                models.extend(model_directory(&self.plan.config_of(&run)?).map(|model| (run.name.clone(), model)));
                let (child, directory) = (self.begin(&run)?, self.directory.join(&run.name));
                let (error_file, stopped) = (self.error_file(&run), stopped.clone());
                playing.spawn(async move {
                    let outcome = wait(child, &directory, until, &error_file, stopped).await;
                    (run, outcome)
                });
            }
            if playing.is_empty() && waiting.is_empty() {
                return Ok(ended);
            }
            tokio::select! {
                Some(over) = playing.join_next() => {
                    let (run, outcome) = over.context("what waits for a run broke")?;
                    models.remove(&run.name);
                    report(&run, &outcome);
                    ended.push((run, outcome));
                }
                () = tokio::time::sleep(LOOK_INTERVAL), if playing.len() < self.parallel => {}
                () = interruptions.next() => {
                    // Nobody listens if none is playing.
                    let _ = stop.send(true);
                    tokio::select! {
                        () = async { while playing.join_next().await.is_some() {} } => {}
                        // Asked twice, it waits for nobody: dropped, they are killed.
                        () = interruptions.next() => {}
                    }
                    bail!("interrupted; --resume goes on with what is left");
                }
            }
        }
    }

    /// The first that can begin: one whose model no other is making, and that no process of a sweep that was killed is
    /// still about to leave.
    fn next(&self, waiting: &[SweepRun], models: &HashMap<String, PathBuf>) -> Result<Option<usize>> {
        for (index, run) in waiting.iter().enumerate() {
            let model = model_directory(&self.plan.config_of(run)?);
            let is_being_made =
                model.is_some_and(|model| !model.exists() && models.values().any(|other| *other == model));
            if !is_being_made && !is_run_held(&self.directory.join(&run.name)) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn error_file(&self, run: &SweepRun) -> PathBuf {
        self.directory.join(LOGS).join(format!("{}.err", run.name))
    }

    fn begin(&self, run: &SweepRun) -> Result<Child> {
        let directory = self.directory.join(&run.name);
        let program = std::env::current_exe().context("this program's own file is gone")?;
        let mut command = Command::new(program);
        // Its standard input closes when this process dies, however it dies.
        command.arg("train").arg(&self.plan.config).args(["--json", "--until-stdin-closes"]);
        command.args(["--seed", &run.seed.to_string()]).arg("--run-directory").arg(&directory);
        for one in self.plan.overrides(run.arm) {
            command.arg("--set").arg(one.argument());
        }
        let threads = self.plan.config_of(run)?.config.engine.threads;
        if self.parallel > 1 && threads == EngineOptions::default().threads {
            // No result depends on it, and more threads than processors are in each other's way.
            command.arg("--set").arg(format!("engine.threads={}", (processors() / self.parallel).max(1)));
        }
        if [STORE_FILE, CONFIG_FILE].iter().any(|file| directory.join(file).exists()) {
            command.arg("--resume");
        }
        if !self.plan.agent.is_empty() {
            command.arg("--").args(&self.plan.agent);
        }
        let output = self.directory.join(LOGS).join(format!("{}.jsonl", run.name));
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        let errors = self.error_file(run);
        let stdout = OpenOptions::new().append(true).create(true).open(&output).with_context(|| cannot(&output))?;
        let stderr = File::create(&errors).with_context(|| cannot(&errors))?;
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).kill_on_drop(true);
        command.spawn().context("cannot start a run")
    }
}

/// Waits for a run; it is interrupted when it has made `until` updates, or when everything is.
async fn wait(
    mut child: Child,
    directory: &Path,
    until: Option<u64>,
    error_file: &Path,
    mut stopped: watch::Receiver<bool>,
) -> Outcome {
    // Waiting for a child closes its standard input, which would interrupt it.
    let mut stdin = child.stdin.take();
    let mut is_paused = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = stopped.changed(), if stdin.is_some() => stdin = None,
            () = tokio::time::sleep(LOOK_INTERVAL), if until.is_some() && stdin.is_some() => {
                if until.is_some_and(|until| scores::updates(&scores::steps(directory)) >= until) {
                    is_paused = true;
                    stdin = None;
                }
            }
        }
    };
    match status {
        Ok(status) if status.success() => Outcome::Ended,
        Ok(_) if is_paused => Outcome::Paused,
        Ok(status) => Outcome::Failed(first_error(error_file).unwrap_or_else(|| format!("it ended with {status}"))),
        Err(error) => Outcome::Failed(format!("it cannot be waited for: {error}")),
    }
}

/// The first line of the error that ended a run, of what it wrote to its standard error.
fn first_error(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let error_line = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
    error_line.or(text.lines().rev().find(|line| !line.trim().is_empty())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_the_first_line_of_its_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            first_error(file.path())
        };
        assert_eq!(error("warning: x\nerror: it is\n  caused by: y\n").as_deref(), Some("it is"));
        assert_eq!(error("Killed\n\n").as_deref(), Some("Killed"));
        assert_eq!(error(""), None);
    }
}
