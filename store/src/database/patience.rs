//! Patience with a database server that is away, as while it is started again.

use std::time::{Duration, Instant};

use fulgurite_types::Backoff;

use crate::database::signals::Signals;
use crate::{Result, StoreError};

/// Between one try and the next.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long somebody who needs the database goes on trying.
pub(crate) struct Patience {
    longest: Duration,
    since: Option<Instant>,
    backoff: Backoff,
}

impl Patience {
    /// Patience for so long, from the first failure on.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, since: None, backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    /// Waits for the next try after a failure.
    ///
    /// # Errors
    /// The failure itself, if it lasts, if patience is over, or once the store is being closed.
    pub(crate) async fn wait(&mut self, error: StoreError, signals: &Signals) -> Result<()> {
        if !error.is_passing() {
            return Err(error);
        }
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() + self.backoff.peek() > self.longest {
            return Err(error);
        }
        if is_first {
            let seconds = self.longest.as_secs_f64();
            tracing::warn!(%error, "the database is away; it is waited for, at most {seconds} s");
        }
        tokio::select! {
            () = tokio::time::sleep(self.backoff.pause()) => {}
            () = signals.closed() => return Err(error),
        }
        Ok(())
    }
}
