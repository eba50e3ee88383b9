//! The attempts that run now: what the heartbeats name, and how an attempt learns that it is over for the server.

use fulgurite_client::{AttemptName, KnownAttempt};
use fulgurite_types::AttemptStatus;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The attempts that run now.
#[derive(Debug, Default)]
pub(crate) struct RunningAttempts(Mutex<HashMap<AttemptName, oneshot::Sender<AttemptStatus>>>);

impl RunningAttempts {
    /// Counts the attempt among them until the guard is dropped.
    pub(crate) fn enter(&self, name: AttemptName) -> RunningAttempt<'_> {
        let (sender, ended_elsewhere) = oneshot::channel();
        self.lock().insert(name.clone(), sender);
        RunningAttempt { all: self, name, ended_elsewhere }
    }

    /// Who they are.
    pub(crate) fn names(&self) -> Vec<AttemptName> {
        self.lock().keys().cloned().collect()
    }

    /// Tells an attempt that has ended on the server, if it still runs here.
    pub(crate) fn tell(&self, known: &KnownAttempt) {
        if known.status.is_ended()
            && let Some(sender) = self.lock().remove(&known.name)
        {
            // It may have ended in this moment; then it does not listen any more.
            let _ = sender.send(known.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptName, oneshot::Sender<AttemptStatus>>> {
        // The map is whole after every statement, so a poisoned lock holds nothing broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt that runs. Dropped before its end is reported, so that its own report is not taken for somebody else's.
#[derive(Debug)]
pub(crate) struct RunningAttempt<'a> {
    all: &'a RunningAttempts,
    name: AttemptName,
    ended_elsewhere: oneshot::Receiver<AttemptStatus>,
}

impl RunningAttempt<'_> {
    /// Waits until a heartbeat's reply says that the attempt has ended, and gives its status.
    pub(crate) async fn ended_elsewhere(&mut self) -> AttemptStatus {
        match (&mut self.ended_elsewhere).await {
            Ok(status) => status,
            Err(_) => pending().await,
        }
    }
}

impl Drop for RunningAttempt<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn name(attempt_id: &str) -> AttemptName {
        AttemptName { rollout_id: "ro".to_owned(), attempt_id: attempt_id.to_owned() }
    }

    fn look(attempt: &mut RunningAttempt<'_>) -> Poll<AttemptStatus> {
        pin!(attempt.ended_elsewhere()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn only_the_attempt_that_has_ended_is_told_and_no_longer_named() {
        let all = RunningAttempts::default();
        let (mut first, mut second) = (all.enter(name("at-1")), all.enter(name("at-2")));
        all.tell(&KnownAttempt { name: name("at-1"), status: AttemptStatus::Running });
        all.tell(&KnownAttempt { name: name("at-2"), status: AttemptStatus::Timeout });
        all.tell(&KnownAttempt { name: name("at-3"), status: AttemptStatus::Failed });
        assert_eq!((look(&mut first), look(&mut second)), (Poll::Pending, Poll::Ready(AttemptStatus::Timeout)));
        assert_eq!(all.names(), [name("at-1")]);
        drop(first);
        assert!(all.names().is_empty());
    }
}
