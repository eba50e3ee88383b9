//! What people are shown before and beside the events of a run.

use std::fmt;
use std::sync::Arc;

use fulgurite_lab::trackers::Warn;

/// Shows people what a run's reporter is not for.
pub trait Notices: Send + Sync {
    /// Shows a line.
    fn note(&self, text: fmt::Arguments<'_>);

    /// Begins to show how far something long has come.
    fn progress(&self) -> Box<dyn ShownProgress>;
}

/// Shows how far something long has come, until it is dropped.
pub trait ShownProgress {
    /// So many of `what` are done, of so many if that is known.
    fn set(&mut self, what: &str, done: u64, total: Option<u64>);
}

/// Shows warnings as notices.
pub(crate) fn warn(notices: &Arc<dyn Notices>) -> Warn {
    let notices = Arc::clone(notices);
    Box::new(move |warning| notices.note(format_args!("{warning}")))
}
