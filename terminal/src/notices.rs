//! Notices on standard error, with progress as the terminal has it.

use fulgurite_training::{Notices, ShownProgress};

use crate::output;
use crate::progress::Progress;

/// Prints notices to standard error.
pub struct TerminalNotices;

impl Notices for TerminalNotices {
    fn note(&self, text: std::fmt::Arguments<'_>) {
        output::note(text);
    }

    fn progress(&self) -> Box<dyn ShownProgress> {
        Box::new(NoticedProgress(Progress::new(false)))
    }
}

impl ShownProgress for Progress {
    fn set(&mut self, what: &str, done: u64, total: Option<u64>) {
        Progress::set(self, what, done, total);
    }
}

/// Progress that is taken away as it is dropped.
struct NoticedProgress(Progress);

impl ShownProgress for NoticedProgress {
    fn set(&mut self, what: &str, done: u64, total: Option<u64>) {
        self.0.set(what, done, total);
    }
}

impl Drop for NoticedProgress {
    fn drop(&mut self) {
        self.0.finish();
    }
}
