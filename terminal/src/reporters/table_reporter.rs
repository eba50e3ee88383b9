//! A training run for people: a table that grows by a row a step, and a bar for what takes long.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fulgurite_trainer::{Failures, Reporter, RunSummary, TrainEvent};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

use super::messages::messages;
use super::pace::Pace;
use super::sft_table::SftTable;
use super::step_table::{StepColumns, header, row};
use super::summary::{next_commands, summary_text};
use super::within_step::{SampledTokens, WithinStep};
use crate::output;
use crate::paint::Paint;

/// How often a pipe gets a line about something that takes long.
const PLAIN_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// A reporter for people: a table that grows by a row a step, and a bar for what takes long.
pub struct TableReporter {
    bar: Option<ProgressBar>,
    terminal: bool,
    last_plain_line: Option<Instant>,
    columns: StepColumns,
    /// Of a run that learns from conversations.
    sft: Option<SftTable>,
    /// Why rollouts failed that was told last: the same is not told at every step.
    failed_for: Option<String>,
    /// What a step has come to so far; nobody is told in a pipe.
    within_step: Option<WithinStep>,
    /// How fast the run makes updates, once it has begun.
    pace: Option<Pace>,
    /// Where the run's files are, once it has begun.
    directory: Option<PathBuf>,
}

impl TableReporter {
    /// Bars on a terminal, plain lines in a pipe. `sampled` counts the tokens that were sampled in this process.
    pub fn new(sampled: Option<SampledTokens>) -> Self {
        let terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        Self {
            bar: None,
            terminal,
            last_plain_line: None,
            columns: StepColumns::default(),
            sft: None,
            failed_for: None,
            within_step: terminal.then(|| WithinStep::new(sampled)),
            pace: None,
            directory: None,
        }
    }

    fn progress(&mut self, done: u64, total: u64, message: String) {
        if self.terminal {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::new(total);
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(message);
        } else if self.last_plain_line.is_none_or(|last| last.elapsed() >= PLAIN_LINE_INTERVAL) {
            self.last_plain_line = Some(Instant::now());
            output::line(format!("{message} {done}/{total}"));
        }
    }

    /// Takes the bar away.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Prints a line that stays.
    fn line(&mut self, line: &str) {
        self.clear();
        output::line(line);
    }

    fn failures(&mut self, phase: &str, step: u64, failures: &Failures) {
        // Where all failed, the error that ends the run says why.
        let is_known = self.failed_for.as_ref() == Some(&failures.cause);
        if failures.failed < failures.rollouts && !is_known {
            let Failures { failed, rollouts, .. } = failures;
            self.line(&format!(
                "warning: {failed} of {rollouts} rollouts of {phase} at step {step} failed: {failures}"
            ));
            self.failed_for = Some(failures.cause.clone());
        }
    }

    fn step(&mut self, step: u64, metrics: &Map<String, Value>) {
        if let Some(table) = SftTable::of(&mut self.sft, metrics) {
            let lines = table.lines(step, metrics);
            lines.iter().for_each(|line| self.line(line));
            self.time_left(metrics);
            return;
        }
        if self.columns.take_up(metrics) {
            self.line(&header(&self.columns.components));
        }
        self.line(&row(step, metrics, &self.columns.components));
        if let Some(reply) = self.within_step.as_mut().and_then(WithinStep::take_reply) {
            self.line(&Paint::for_stdout().dim(&reply));
        }
        self.time_left(metrics);
    }

    /// Says now and then how long the run may still take.
    fn time_left(&mut self, metrics: &Map<String, Value>) {
        let seconds = metrics.get("time/total").and_then(Value::as_f64);
        if let Some(text) = seconds.and_then(|seconds| self.pace.as_mut()?.after_update(seconds)) {
            self.line(&Paint::for_stdout().dim(&text));
        }
    }

    fn run_started(&mut self, run_id: &str, directory: PathBuf, step: u64, checkpoint: Option<&str>, max_steps: u64) {
        let from = checkpoint.map_or(String::new(), |checkpoint| format!(", resuming after {step} from {checkpoint}"));
        self.line(&format!("run {run_id} in {}: at most {max_steps} updates{from}", directory.display()));
        self.pace = Some(Pace::new(step, max_steps));
        self.directory = Some(directory);
    }

    fn rollouts(&mut self, phase: &'static str, step: u64, done: usize, total: usize) {
        // A bar of something else would show its numbers for a moment.
        if done == 0 {
            self.clear();
        }
        if let Some(text) = self.within_step.as_mut().map(|within| within.rollouts(phase, step)) {
            self.progress(done as u64, total as u64, text);
        }
    }

    fn learning(&mut self, step: u64, done: usize, total: usize) {
        if !self.terminal {
            return;
        }
        if done == 0 {
            self.clear();
        }
        self.progress(done as u64, total as u64, WithinStep::learning(step));
    }

    fn finished(&mut self, summary: &RunSummary) {
        self.line(&summary_text(summary));
        if let Some(directory) = self.directory.take() {
            self.line(&next_commands(&directory));
        }
    }
}

impl Reporter for TableReporter {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::SupervisedStep { step, max_steps, loss, validation_accuracy } => {
                let accuracy = validation_accuracy.map_or(String::new(), |is| format!(", validation accuracy {is:.3}"));
                self.progress(step, max_steps, format!("base model: loss {loss:.3}{accuracy}, step"));
            }
            TrainEvent::RunStarted { run_id, directory, step, checkpoint, max_steps } => {
                self.run_started(&run_id, directory, step, checkpoint.as_deref(), max_steps);
            }
            TrainEvent::Rollouts { phase, step, done, total } => self.rollouts(phase, step, done, total),
            TrainEvent::Learning { step, done, total } => self.learning(step, done, total),
            TrainEvent::Sampled { answer, .. } => {
                if let Some(within) = &mut self.within_step {
                    within.keep_reply(&answer);
                }
            }
            TrainEvent::RolloutsFailed { phase, step, failures } => self.failures(phase, step, &failures),
            TrainEvent::Step { step, metrics } => self.step(step, &metrics),
            TrainEvent::StepRecalled { metrics, .. } => self.columns.recall(&metrics),
            TrainEvent::Finished(summary) => self.finished(&summary),
            other => messages(&other).iter().for_each(|line| self.line(line)),
        }
    }
}
