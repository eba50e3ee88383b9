use std::time::Duration;

use tokio::time::Instant;

use fulgurite_backends::BackendError;
use fulgurite_types::Backoff;

/// How often in a row an answer may make no sense before it is believed.
const DOUBTS: u32 = 3;

/// How long a service is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Wait before the second try; doubles with every further one.
    pub first_wait: Duration,
    /// The longest wait before a try.
    pub longest_wait: Duration,
    /// How long a service may fail one request before the request is given up.
    pub failing: Duration,
    /// How long it may be too busy for one request.
    pub busy: Duration,
    /// How long it may refuse one request because payment is due.
    pub unpaid: Duration,
    /// How long it may be silent in the middle of a request.
    pub silence: Duration,
    /// How long it may hold a request for a result that is not there yet. The hosted service holds it for less than a
    /// minute, SkyRL's server for five.
    pub poll: Duration,
    /// How often a session is kept alive.
    pub heartbeat: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            first_wait: Duration::from_millis(500),
            longest_wait: seconds(30),
            failing: seconds(300),
            busy: seconds(2 * 60 * 60),
            unpaid: seconds(60 * 60),
            silence: seconds(60),
            poll: seconds(330),
            heartbeat: seconds(10),
        }
    }
}

/// Why a try failed that is worth another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The service or the way to it does not work.
    Failing,
    /// The service has no room.
    Busy,
    /// Somebody has to pay.
    Unpaid,
    /// The answer makes no sense, or says what cannot be; a gateway may have given it.
    Doubtful,
}

/// A try that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) trouble: Trouble,
    /// How long the service asks to wait before the next try.
    pub(crate) retry_after: Option<Duration>,
    /// What it is if there is no other try.
    pub(crate) error: BackendError,
}

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Tries {
    patience: Patience,
    /// The trouble at hand, and since when.
    trouble: Option<(Trouble, Instant)>,
    /// How often in a row.
    failures: u32,
    backoff: Backoff,
}

impl Tries {
    pub(crate) fn new(patience: Patience) -> Self {
        let backoff = Backoff::new(patience.first_wait, patience.longest_wait);
        Self { patience, trouble: None, failures: 0, backoff }
    }

    /// The service works.
    pub(crate) fn succeeded(&mut self) {
        self.trouble = None;
        self.start_over();
    }

    /// Waits until it is time for another try; the failure's error if there is to be none.
    pub(crate) async fn failed(&mut self, failure: Failure) -> Result<(), BackendError> {
        let wait = self.wait_after(failure, Instant::now())?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn wait_after(&mut self, failure: Failure, now: Instant) -> Result<Duration, BackendError> {
        let Failure { trouble, retry_after, error } = failure;
        let since = match self.trouble {
            Some((same, since)) if same == trouble => since,
            _ => {
                self.start_over();
                now
            }
        };
        self.trouble = Some((trouble, since));
        self.failures += 1;
        let Patience { failing, busy, unpaid, .. } = self.patience;
        let is_enough = match trouble {
            Trouble::Failing => now - since >= failing,
            Trouble::Busy => now - since >= busy,
            Trouble::Unpaid => now - since >= unpaid,
            Trouble::Doubtful => self.failures > DOUBTS,
        };
        if is_enough {
            return Err(error);
        }
        if trouble == Trouble::Unpaid && self.failures == 1 {
            tracing::warn!(%error, "somebody has to pay; until then, requests wait");
        }
        tracing::debug!(%error, ?trouble, tries = self.failures, "a request is tried again");
        let wait = self.backoff.pause();
        Ok(retry_after.unwrap_or(wait))
    }

    fn start_over(&mut self) {
        self.failures = 0;
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(trouble: Trouble) -> Failure {
        Failure { trouble, retry_after: None, error: BackendError::Unavailable { message: "gone".into() } }
    }

    #[test]
    fn waits_double_until_the_service_has_failed_for_too_long() {
        let mut tries = Tries::new(Patience { failing: Duration::from_secs(10), ..Patience::default() });
        let mut now = Instant::now();
        let mut waits = Vec::new();
        while let Ok(wait) = tries.wait_after(failure(Trouble::Failing), now) {
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000]);
        tries.succeeded();
        assert_eq!(tries.wait_after(failure(Trouble::Failing), now).unwrap().as_millis(), 500);
    }

    #[test]
    fn a_service_may_say_when_and_each_trouble_has_its_own_end() {
        let mut tries = Tries::new(Patience { failing: Duration::ZERO, ..Patience::default() });
        let now = Instant::now();
        for trouble in [Trouble::Busy, Trouble::Unpaid] {
            let retry_after = Some(Duration::from_secs(7));
            let wait = tries.wait_after(Failure { retry_after, ..failure(trouble) }, now).unwrap();
            assert_eq!(wait.as_secs(), 7);
        }
        for _ in 0..DOUBTS {
            tries.wait_after(failure(Trouble::Doubtful), now).unwrap();
        }
        assert!(tries.wait_after(failure(Trouble::Doubtful), now).is_err());
        assert!(tries.wait_after(failure(Trouble::Failing), now).is_err());
    }
}
