//! The end of a run's report.

use std::time::Instant;

use fulgurite_trainer::{Reporter, RunSummary, TrainEvent};

/// Passes events on, but keeps the summary until everything is done, and counts all of the command's time in it.
pub(super) struct LastWord {
    reporter: Box<dyn Reporter>,
    started: Instant,
    summary: Option<Box<RunSummary>>,
}

impl LastWord {
    /// Nothing has been reported yet.
    pub(super) fn new(reporter: Box<dyn Reporter>, started: Instant) -> Self {
        Self { reporter, started, summary: None }
    }

    /// Reports the summary.
    pub(super) fn speak(mut self) {
        if let Some(mut summary) = self.summary.take() {
            summary.wall_seconds = self.started.elapsed().as_secs_f64();
            self.reporter.report(TrainEvent::Finished(summary));
        }
    }
}

impl Reporter for LastWord {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Finished(summary) => self.summary = Some(summary),
            other => self.reporter.report(other),
        }
    }
}
