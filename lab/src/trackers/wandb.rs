//! Weights & Biases, by its own package in a Python process that hears every step.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_types::shortened_line;
use serde_json::{Map, Value, json};

use super::tracker::{TrackedRun, TrackedStep, Tracker, numbers};

/// What the process runs.
const PROGRAM: &str = include_str!("wandb.py");
/// Steps that may wait for a process that is slower than the run.
const WAITING_STEPS: usize = 10_000;
/// A longer line of the process is no answer.
const LONGEST_ANSWER: u64 = 1 << 16;

/// How long the process is waited for. The run waits meanwhile.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Until the run is known at Weights & Biases.
    start: Duration,
    /// Until all of it has arrived there.
    finish: Duration,
    /// Until it ends where it was told to.
    end: Duration,
}

const LIMITS: Limits =
    Limits { start: Duration::from_secs(30), finish: Duration::from_secs(120), end: Duration::from_secs(10) };

/// The process that passes a run on. Nothing but its start and its end is waited for.
#[derive(Debug)]
pub struct Wandb {
    python: PathBuf,
    process: Child,
    /// What it is to read; none once the run is over.
    steps: Option<SyncSender<String>>,
    answers: Receiver<String>,
    limits: Limits,
}

impl Wandb {
    /// Begins the run in `directory`, which gets a directory `wandb`, in place of what that has of the run already.
    ///
    /// # Errors
    ///
    /// If `python` is no interpreter, has no package `wandb`, or does not answer, or if the package refuses the run.
    pub fn create(python: &Path, directory: &Path, run: &TrackedRun) -> Result<Self> {
        Self::create_within(LIMITS, python, directory, run)
    }

    fn create_within(limits: Limits, python: &Path, directory: &Path, run: &TrackedRun) -> Result<Self> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
        let created = Self::begin(limits, python, directory, run);
        if created.is_err() {
            // The first that is not empty ends it: what the package has written stays.
            missing.into_iter().all(|path| std::fs::remove_dir(path).is_ok());
        }
        created
    }

    fn begin(limits: Limits, python: &Path, directory: &Path, run: &TrackedRun) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let cannot_start = || format!("cannot start {} ([trackers] python)", python.display());
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // An interrupt of the terminal is for this process.
        let mut process = command.process_group(0).spawn().with_context(cannot_start)?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (steps, to_write) = sync_channel(WAITING_STEPS);
        let (read, answers) = sync_channel(1);
        let mut tracker = Self { python: python.to_owned(), process, steps: Some(steps), answers, limits };
        let thread = || Builder::new().name("fulgurite-wandb".into());
        if let (Some(stdin), Some(stdout)) = (stdin, stdout) {
            thread().spawn(move || write_lines(stdin, &to_write)).with_context(cannot_start)?;
            thread().spawn(move || read_lines(stdout, &read)).with_context(cannot_start)?;
        }
        tracker.tell(&json!({
            "directory": directory,
            "id": id_of(run),
            "project": run.project,
            "name": run.run_id,
            "config": run.config,
        }))?;
        match tracker.answer(limits.start)?.as_str() {
            "started" => Ok(tracker),
            error => bail!(tracker.failure(error)),
        }
    }

    fn tell(&mut self, event: &Value) -> Result<()> {
        let steps = self.steps.as_ref().ok_or_else(|| anyhow!("the run is over"))?;
        match steps.try_send(event.to_string()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                bail!("{} ([trackers] python) is {WAITING_STEPS} steps behind", self.python.display())
            }
            Err(TrySendError::Disconnected(_)) => {
                let error = self.answer(self.limits.end)?;
                bail!(self.failure(&error))
            }
        }
    }

    /// The next line that the process writes; empty if it has ended.
    fn answer(&self, limit: Duration) -> Result<String> {
        match self.answers.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => Ok(String::new()),
            Err(RecvTimeoutError::Timeout) => bail!(
                "wandb of {} ([trackers] python) did not answer within {} s (help: WANDB_MODE=offline writes files, which `wandb \
                 sync` sends)",
                self.python.display(),
                limit.as_secs_f64()
            ),
        }
    }

    /// Why the process ended, by its last line.
    fn failure(&self, error: &str) -> String {
        let python = self.python.display();
        match error {
            "" => format!("{python} ([trackers] python) ended"),
            error if error.contains("No module named 'wandb'") => {
                format!("{python} ([trackers] python) has no package wandb (help: {python} -m pip install wandb)")
            }
            error => format!("wandb of {python} ([trackers] python): {}", shortened_line(error, 200, "...")),
        }
    }
}

/// Writes what comes, until nothing can come any more or the process has ended.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    while let Ok(line) = lines.recv() {
        if writeln!(stdin, "{line}").is_err() {
            break;
        }
    }
}

/// Reads lines until the process ends or nobody waits for one.
fn read_lines(stdout: ChildStdout, lines: &SyncSender<String>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        match (&mut stdout).take(LONGEST_ANSWER).read_until(b'\n', &mut line) {
            Ok(1..) if lines.send(String::from_utf8_lossy(&line).trim().to_owned()).is_ok() => {}
            _ => break,
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
        let error = self.answer(self.limits.finish)?;
        if !self.process.wait()?.success() {
            bail!(self.failure(&error));
        }
        Ok(())
    }
}

impl Drop for Wandb {
    /// The process ends by itself once nothing more can come, or is ended.
    fn drop(&mut self) {
        self.steps = None;
        let since = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if since.elapsed() > self.limits.end {
                self.process.kill().ok();
                self.process.wait().ok();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
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

    fn script(directory: &Path, script: &str) -> PathBuf {
        let python = directory.join("python");
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        python
    }

    fn run() -> TrackedRun {
        TrackedRun {
            run_id: "r-1".into(),
            project: "p".into(),
            instance: "0190-aaaa-bbbbccccdddd".into(),
            config: json!({}),
            start_time: 1.0,
        }
    }

    /// It stopped the run before it began, for as long as Weights & Biases was out of reach.
    #[test]
    fn a_python_that_never_answers_is_ended_and_the_run_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let short = Duration::from_millis(50);
        let limits = Limits { start: short, finish: short, end: short };
        for (words, error) in [
            ("exec sleep 1000", "did not answer within 0.05 s"),
            ("exec cat /dev/zero >&2", "([trackers] python) ended"),
            ("exec yes", ": y"),
        ] {
            let python = script(directory.path(), words);
            let limits = if error == ": y" { LIMITS } else { limits };
            let limits = Limits { end: short, ..limits };
            let refused = Wandb::create_within(limits, &python, directory.path(), &run()).unwrap_err().to_string();
            assert!(refused.contains(error), "{words}: {refused}");
        }
        // Steps are not waited for, even if nobody reads them.
        let python = script(directory.path(), "echo started; exec sleep 1000");
        let limits = Limits { start: LIMITS.start, ..limits };
        let mut tracker = Wandb::create_within(limits, &python, directory.path(), &run()).unwrap();
        let metrics = Map::from_iter([("loss".repeat(1000), json!(1.0))]);
        let step = |number| TrackedStep { number, time: 1.0, metrics: &metrics };
        for number in 0..100 {
            tracker.step(&step(number)).unwrap();
        }
        let error = (100..=2 * WAITING_STEPS as u64).find_map(|number| tracker.step(&step(number)).err()).unwrap();
        assert!(error.to_string().ends_with("is 10000 steps behind"), "{error}");
        let process = tracker.process.id();
        drop(tracker);
        assert!(!Path::new(&format!("/proc/{process}")).exists());
    }

    #[test]
    fn a_python_without_the_package_is_named_with_what_installs_it() {
        let directory = tempfile::tempdir().unwrap();
        let python = script(directory.path(), "echo \"ModuleNotFoundError: No module named 'wandb'\"\nexit 1");
        let run = run();
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
