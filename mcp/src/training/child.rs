//! A run's trainer: started, told how far it may go, waited for, and let go of.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::time::timeout;

use super::events::Events;
use crate::at_start::{AtStart, OWN_TOOLS, WeightsInPlace};
use crate::error::ToolError;
use crate::program::{Program, last_part};
use crate::workspace::{RunHome, RunRecord, read_text};

/// How often a trainer is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// For what a trainer that is to end has begun: a step of a large model, the worlds of its attempts.
const LAST_WORDS: Duration = Duration::from_secs(120);

/// What is trained at the moment: one run at most, for each takes the memory of its model.
#[derive(Default)]
pub(crate) struct Trainings {
    current: Option<Training>,
}

/// How a trainer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// It may make so many updates in all.
    Allowed(u64),
    /// It makes no update beyond these, scores what is left to score, and ends.
    Last(u64),
}

/// A trainer.
pub(crate) struct Training {
    home: RunHome,
    child: Child,
    commands: Option<ChildStdin>,
    events: Events,
    /// Events that nobody has taken yet.
    untaken: VecDeque<Value>,
    /// Updates that it may make.
    allowed: u64,
    /// Updates after which it waits, if it does.
    waits_after: Option<u64>,
    /// What was in its way, if it said so.
    in_place: Option<WeightsInPlace>,
    ended: Option<ExitStatus>,
}

/// What became of a trainer.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It waits: it has made as many updates as it may.
    Waiting,
    /// The run is over, by its stop rule or its limit.
    Over,
}

impl Trainings {
    /// The trainer of a run, if there is one that goes on or waits.
    pub(crate) fn of(&mut self, home: &RunHome) -> Option<&mut Training> {
        let training = self.current.as_mut().filter(|training| training.home == *home)?;
        training.is_alive().then_some(training)
    }

    /// # Errors
    /// If this run is being trained right now.
    pub(crate) fn check_at_rest(&mut self, home: &RunHome) -> Result<(), ToolError> {
        match self.of(home).is_some_and(|training| !training.waits()) {
            true => Err(ToolError::AtWork { run: home.name() }),
            false => Ok(()),
        }
    }

    /// # Errors
    /// If another run is being trained right now: what begins now would end it.
    pub(crate) fn check_no_other(&mut self, home: &RunHome) -> Result<(), ToolError> {
        let other = self.current.as_ref().map(|training| training.home.clone()).filter(|other| other != home);
        other.map_or(Ok(()), |other| self.check_at_rest(&other))
    }

    /// Lets go of whatever is trained and starts this run's trainer.
    ///
    /// # Errors
    /// If `at_start` cannot be what its start does: what was trained goes on then.
    pub(crate) async fn begin(
        &mut self,
        program: &Program,
        server: Option<&str>,
        home: &RunHome,
        record: &RunRecord,
        beginning: Beginning,
        at_start: AtStart,
    ) -> Result<&mut Training, ToolError> {
        check_at_start(server, home, at_start)?;
        self.end().await;
        let training = Training::start(program, server, home, record, beginning, at_start)?;
        Ok(self.current.insert(training))
    }

    /// Has what is trained end: it keeps what is in its last checkpoint.
    pub(crate) async fn end(&mut self) {
        if let Some(training) = self.current.take() {
            training.end().await;
        }
    }
}

impl Training {
    fn start(
        program: &Program,
        server: Option<&str>,
        home: &RunHome,
        record: &RunRecord,
        beginning: Beginning,
        at_start: AtStart,
    ) -> Result<Self, ToolError> {
        let mut words: Vec<OsString> = vec!["train".into(), record.config.clone().into(), "--json".into()];
        words.extend(["--run-directory".into(), home.path().into(), "--until-stdin-closes".into()]);
        words.extend(record.settings.iter().flat_map(|setting| ["--set".into(), setting.into()]));
        words.extend(server.iter().flat_map(|url| ["--server".into(), url.into()]));
        if home.has_started() {
            words.push("--resume".into());
        }
        words.extend(at_start.flag().map(OsString::from));
        let (flag, steps) = match beginning {
            Beginning::Allowed(steps) => ("--allowed-steps", steps),
            Beginning::Last(steps) => ("--max-steps", steps),
        };
        words.extend([flag.into(), steps.to_string().into()]);
        let events = Events::after_now(&home.events());
        let mut command = program.command();
        command.args(words).stdin(Stdio::piped()).kill_on_drop(false);
        command.stdout(appended(&home.events())?).stderr(appended(&home.log())?);
        let failed =
            |error: std::io::Error| ToolError::Command { command: "train".to_owned(), message: error.to_string() };
        let mut child = command.spawn().map_err(failed)?;
        let commands = child.stdin.take();
        let untaken = VecDeque::new();
        let (home, allowed) = (home.clone(), steps);
        let (waits_after, in_place, ended) = (None, None, None);
        Ok(Self { home, child, commands, events, untaken, allowed, waits_after, in_place, ended })
    }

    /// Whether it waits for leave to go on.
    pub(crate) fn waits(&mut self) -> bool {
        self.look();
        self.waits_after.is_some_and(|waits| waits >= self.allowed)
    }

    /// Updates that it may make.
    pub(crate) fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Has it go on to so many updates, or wait at the end of the step that it is at.
    pub(crate) async fn allow(&mut self, steps: u64) -> Result<(), ToolError> {
        let Some(commands) = &mut self.commands else { return Ok(()) };
        let order = format!("{}\n", json!({ "allowed_steps": steps }));
        let sent = async {
            commands.write_all(order.as_bytes()).await?;
            commands.flush().await
        };
        sent.await.map_err(|error| ToolError::Command { command: "train".to_owned(), message: error.to_string() })?;
        self.allowed = steps;
        if self.waits_after.is_some_and(|waits| waits < steps) {
            self.waits_after = None;
        }
        Ok(())
    }

    /// Has it wait at the end of the step that it is at, if that can be told at once.
    pub(crate) fn hold(&mut self) {
        let Some(commands) = &mut self.commands else { return };
        let order = format!("{}\n", json!({ "allowed_steps": 0 }));
        let mut sent = std::pin::pin!(commands.write_all(order.as_bytes()));
        // A pipe takes so little without waiting; a trainer that takes nothing in has ended.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if sent.as_mut().poll(&mut context).is_ready() {
            self.allowed = 0;
        }
    }

    /// The next event that it printed, or what it has come to; `None` if neither is there within `patience`.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Option<Result<Value, Ended>>, ToolError> {
        let until = tokio::time::Instant::now() + patience;
        loop {
            self.look();
            if let Some(event) = self.untaken.pop_front() {
                return Ok(Some(Ok(event)));
            }
            match self.ended {
                Some(status) if status.success() => return Ok(Some(Err(Ended::Over))),
                Some(status) => return Err(self.failed(status)),
                None if self.waits_after.is_some_and(|waits| waits >= self.allowed) => {
                    return Ok(Some(Err(Ended::Waiting)));
                }
                None if tokio::time::Instant::now() >= until => return Ok(None),
                None => tokio::time::sleep(INTERVAL).await,
            }
        }
    }

    fn is_alive(&mut self) -> bool {
        self.look();
        self.ended.is_none()
    }

    /// Takes in what has happened. Whether it has ended is asked first, so that all is read of one that has.
    fn look(&mut self) {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        for event in self.events.next() {
            match event["event"].as_str() {
                Some("waiting") => self.waits_after = event["step"].as_u64(),
                Some("weights_in_place") => self.in_place = WeightsInPlace::deserialize(&event).ok(),
                _ => self.untaken.push_back(event),
            }
        }
    }

    fn failed(&self, status: ExitStatus) -> ToolError {
        // Without its log there is still how it ended.
        let log = read_text(&self.home.log()).unwrap_or_default();
        let message = match last_part(&log) {
            message if message.is_empty() => status.to_string(),
            message => message,
        };
        match &self.in_place {
            Some(found) if !found.choices(OWN_TOOLS).is_empty() => {
                ToolError::WeightsInPlace { found: found.clone(), tools: OWN_TOOLS }
            }
            _ => ToolError::Command { command: "train".to_owned(), message },
        }
    }

    /// Closing its input tells it to end.
    async fn end(mut self) {
        drop(self.commands.take());
        if timeout(LAST_WORDS, self.child.wait()).await.is_err() {
            tracing::warn!(run = self.home.name(), "the trainer does not end and is killed");
            // It goes on from its last checkpoint.
            let _ = self.child.kill().await;
        }
    }
}

fn check_at_start(server: Option<&str>, home: &RunHome, at_start: AtStart) -> Result<(), ToolError> {
    let run = home.name();
    let why = match (at_start, server) {
        (AtStart::Refuse, _) => return Ok(()),
        (_, None) => {
            "at_start says what becomes of the weights at a server, and this run has none: leave it out".to_owned()
        }
        (AtStart::StartOver, _) if home.has_started() => {
            format!("run {run:?} has begun, and starting over is a new run: start_run with another name")
        }
        (AtStart::ReplaceWeights, _) if !home.has_started() => {
            format!(
                "run {run:?} has no checkpoint yet to replace weights by: \"start_over\" puts its model's files there"
            )
        }
        (AtStart::StartOver | AtStart::ReplaceWeights, _) => return Ok(()),
    };
    Err(ToolError::Refused(why))
}

fn appended(path: &Path) -> Result<File, ToolError> {
    OpenOptions::new().create(true).append(true).open(path).map_err(ToolError::file(path))
}
