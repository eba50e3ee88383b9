use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{AttemptStatus, AttemptUpdate, SessionIds};
use tokio::sync::OnceCell;

use crate::attempt::attribution::Attribution;

/// To whom a request's generations belong: to an attempt that is known, or to a session of their own, which is opened
/// once there is something to record.
pub(crate) enum Owner {
    Known(Attribution),
    Session {
        ids: SessionIds,
        /// Set once it exists.
        opened: OnceCell<()>,
        /// Calls that are not recorded yet.
        unfinished: AtomicUsize,
    },
}

impl Owner {
    /// The owner of so many calls, which may have a session already.
    pub(crate) fn new(attribution: Option<Attribution>, session: Option<SessionIds>, calls: usize) -> Self {
        match attribution {
            Some(attribution) => Owner::Known(attribution),
            None => {
                let opened = session.as_ref().map(|_| OnceCell::from(())).unwrap_or_default();
                Owner::Session { ids: session.unwrap_or_default(), opened, unfinished: AtomicUsize::new(calls) }
            }
        }
    }

    /// If the call named its attempt.
    pub(crate) fn attribution(&self) -> Option<&Attribution> {
        match self {
            Owner::Known(attribution) => Some(attribution),
            Owner::Session { .. } => None,
        }
    }

    /// Rollout and attempt, which exist from now on.
    pub(crate) async fn ids(&self, store: &Store) -> Result<(String, String), StoreError> {
        match self {
            Owner::Known(attribution) => Ok((attribution.rollout_id.clone(), attribution.attempt_id.clone())),
            Owner::Session { ids, opened, .. } => {
                opened.get_or_try_init(|| store.rollouts().start_session(ids)).await?;
                Ok(self.names())
            }
        }
    }

    /// Rollout and attempt, which a session may not have yet: it is opened with the first record.
    pub(crate) fn names(&self) -> (String, String) {
        match self {
            Owner::Known(Attribution { rollout_id, attempt_id, .. })
            | Owner::Session { ids: SessionIds { rollout_id, attempt_id }, .. } => {
                (rollout_id.clone(), attempt_id.clone())
            }
        }
    }

    /// Whether what is to be recorded is one call alone, whose session begins and ends with it.
    pub(crate) fn is_one_call(&self) -> bool {
        matches!(self, Owner::Session { opened, unfinished, .. } if !opened.initialized() && unfinished.load(Ordering::Acquire) == 1)
    }

    /// Notes that one of the calls is recorded. A session is one request, and over with its last call; what it sampled
    /// stays, and can be rewarded later.
    pub(crate) async fn end_call(&self, store: &Store) -> Result<(), StoreError> {
        if let Owner::Session { ids: SessionIds { rollout_id, attempt_id }, opened, unfinished } = self
            && unfinished.fetch_sub(1, Ordering::AcqRel) == 1
            && opened.initialized()
        {
            let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
            store.attempts().update(rollout_id, attempt_id, ended).await?;
        }
        Ok(())
    }
}
