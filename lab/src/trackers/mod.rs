//! A run's metrics for programs of others that draw them: TensorBoard and Weights & Biases, while the run goes on or after.

pub mod tensorboard;
pub mod tracker;
pub mod wandb;

use std::path::Path;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_trainer::{Reporter, TrainEvent};
use serde_json::Value;

use self::tensorboard::TensorBoard;
use self::tracker::{TrackedRun, TrackedStep, Tracker};
use self::wandb::Wandb;
use crate::time;

/// Directory of TensorBoard's files.
const TENSORBOARD: &str = "tensorboard";

/// Opens the trackers that the config of a run asks for and tells them of every step, those of before first; passes all
/// events on to `inner`. `warn` hears of trackers that fail.
pub fn tracked(inner: Box<dyn Reporter>, loaded: &LoadedConfig, run_directory: &Path, warn: Warn) -> Box<dyn Reporter> {
    let config = &loaded.config.trackers;
    if !config.tensorboard && !config.wandb {
        return inner;
    }
    let own = config.directory.as_ref().map(|directory| loaded.resolve(directory));
    let mut open: Vec<(&'static str, Open)> = Vec::new();
    if config.tensorboard {
        let directory = match (&own, run_directory.file_name()) {
            (Some(directory), Some(run)) => directory.join(TENSORBOARD).join(run),
            _ => run_directory.join(TENSORBOARD),
        };
        open.push(("TensorBoard", Box::new(move || Ok(Box::new(TensorBoard::create(&directory)?)))));
    }
    if config.wandb {
        let project = config.wandb_project.clone().unwrap_or_else(|| loaded.config.run.name.clone());
        let run_directory = run_directory.to_owned();
        let directory = own.unwrap_or_else(|| run_directory.clone());
        let python = loaded.interpreter(&config.python);
        let begin = move || -> Result<Box<dyn Tracker>> {
            let run = TrackedRun::of_directory(&run_directory, &project)?;
            Ok(Box::new(Wandb::create(&python, &directory, &run)?))
        };
        open.push(("Weights & Biases", Box::new(begin)));
    }
    Box::new(Trackers::begin(inner, open, warn))
}

/// Hears a warning of one line.
pub type Warn = Box<dyn Fn(&str) + Send>;

/// Begins to write, in place of what was written before.
type Open = Box<dyn Fn() -> Result<Box<dyn Tracker>> + Send>;

/// Tells trackers of what a run tells of. One that fails is told of once, and left alone from then on.
struct Trackers {
    inner: Box<dyn Reporter>,
    ways: Vec<(&'static str, Open)>,
    open: Vec<(&'static str, Box<dyn Tracker>)>,
    /// Whether any step has been told of since they were opened.
    is_reported: bool,
    warn: Warn,
}

impl Trackers {
    fn begin(inner: Box<dyn Reporter>, ways: Vec<(&'static str, Open)>, warn: Warn) -> Self {
        let mut trackers = Self { inner, ways, open: Vec::new(), is_reported: false, warn };
        trackers.open();
        trackers
    }

    fn open(&mut self) {
        (self.open, self.is_reported) = (Vec::new(), false);
        let (open, warn) = (&mut self.open, &self.warn);
        self.ways.retain(|(name, way)| match way() {
            Ok(tracker) => {
                open.push((*name, tracker));
                true
            }
            Err(error) => {
                warn(&given_up(name, &error));
                false
            }
        });
    }

    fn each(&mut self, mut tell: impl FnMut(&mut dyn Tracker) -> Result<()>) {
        let (ways, warn) = (&mut self.ways, &self.warn);
        self.open.retain_mut(|(name, tracker)| match tell(tracker.as_mut()) {
            Ok(()) => true,
            Err(error) => {
                warn(&given_up(name, &error));
                ways.retain(|(way, _)| way != name);
                false
            }
        });
        self.is_reported = true;
    }
}

/// The warning that a tracker hears of nothing more.
fn given_up(name: &str, error: &anyhow::Error) -> String {
    format!("warning: {name} is not told of this run, which goes on: {error:#}")
}

impl Reporter for Trackers {
    fn report(&mut self, event: TrainEvent) {
        match &event {
            // A run that is begun again in one process, after a host was lost, tells of all its steps once more.
            TrainEvent::RunStarted { .. } if self.is_reported => self.open(),
            TrainEvent::Step { step, metrics } => {
                let step = TrackedStep { number: *step, time: time::now(), metrics };
                self.each(|tracker| tracker.step(&step));
            }
            TrainEvent::StepRecalled { time, metrics } => {
                if let Some(number) = metrics.get("step").and_then(Value::as_u64) {
                    let step = TrackedStep { number, time: *time, metrics };
                    self.each(|tracker| tracker.step(&step));
                }
            }
            TrainEvent::Finished(_) => self.each(|tracker| tracker.finish()),
            _ => {}
        }
        self.inner.report(event);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Silent;

    impl Reporter for Silent {
        fn report(&mut self, _: TrainEvent) {}
    }

    /// Takes so many steps, and no more: the disk is full.
    struct Full(usize);

    impl Tracker for Full {
        fn step(&mut self, _: &TrackedStep<'_>) -> Result<()> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| anyhow::anyhow!("no space left on device"))?;
            Ok(())
        }

        fn finish(&mut self) -> Result<()> {
            panic!("told of the end though it failed before");
        }
    }

    #[test]
    fn a_tracker_that_fails_is_left_alone_and_ends_nothing() {
        let full: Open = Box::new(|| Ok(Box::new(Full(1))));
        let missing: Open = Box::new(|| anyhow::bail!("no such directory"));
        let mut trackers =
            Trackers::begin(Box::new(Silent), vec![("full", full), ("missing", missing)], Box::new(|_| {}));
        let step = |step: u64| TrainEvent::Step { step, metrics: json!({ "step": step }).as_object().unwrap().clone() };
        trackers.report(step(0));
        assert_eq!(trackers.open.len(), 1);
        trackers.report(step(1));
        assert!(trackers.open.is_empty() && trackers.ways.is_empty());
        trackers.report(TrainEvent::Finished(Box::default()));
    }
}
