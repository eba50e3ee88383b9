//! How often something is tried that fails for reasons which may pass.

use std::time::Duration;

use anyhow::{Context, Error, Result};
use fulgurite_types::Backoff;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The next one may go well.
    Passing {
        /// What happened.
        error: Error,
        /// How long the other side wants to be left alone.
        wait: Option<Duration>,
    },
    /// The next one would fail too.
    Lasting(Error),
}

impl Trouble {
    /// A connection that broke or was not to be had. Addresses are left out: they may be signed.
    pub(crate) fn broken(error: reqwest::Error) -> Self {
        Self::Passing { error: Error::new(error.without_url()).context("the connection failed"), wait: None }
    }
}

/// Tries in a row that may fail.
const TRIES: u32 = 8;
/// The wait after the first, which doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// No wait is longer, whoever asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Who waits so long is told why.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// Hears why a try failed that will be made again, and how long it waits until then.
pub type Waiting = Box<dyn Fn(&Error, Duration) + Send + Sync>;

/// Counts what failed in a row.
#[derive(Debug)]
pub(crate) struct Patience {
    failed: u32,
    backoff: Backoff,
}

impl Default for Patience {
    fn default() -> Self {
        Self { failed: 0, backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT) }
    }
}

impl Patience {
    /// Waits before the next attempt, or gives up.
    pub(crate) async fn wait_after(&mut self, trouble: Trouble, waiting: &Waiting) -> Result<()> {
        match trouble {
            Trouble::Lasting(error) => Err(error),
            Trouble::Passing { error, wait } => {
                self.failed += 1;
                if self.failed == TRIES {
                    return Err(error).with_context(|| format!("given up after {TRIES} tries; what is there is kept"));
                }
                let wait = self.next_wait(wait);
                if wait >= WORTH_SAYING {
                    waiting(&error, wait);
                }
                tokio::time::sleep(wait).await;
                Ok(())
            }
        }
    }

    /// Something went well.
    pub(crate) fn renew(&mut self) {
        *self = Self::default();
    }

    fn next_wait(&mut self, requested: Option<Duration>) -> Duration {
        let doubled = self.backoff.pause();
        requested.unwrap_or(doubled).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_never_longer_than_a_minute() {
        let mut patience = Patience::default();
        let waits: Vec<u128> = (1..TRIES).map(|_| patience.next_wait(None).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000]);
        assert_eq!(patience.next_wait(Some(Duration::from_secs(1 << 40))), LONGEST_WAIT);
        assert_eq!(patience.next_wait(Some(Duration::ZERO)), Duration::ZERO);
    }
}
