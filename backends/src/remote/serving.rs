use std::sync::{Arc, PoisonError, RwLock};

use fulgurite_types::WeightsVersion;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use crate::Changeover;

/// What a host samples from, as far as this process has put it there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Behind every answer that is requested now, if that is certain.
    pub(crate) version: Option<WeightsVersion>,
    /// The adapter that requests must name.
    pub(crate) adapter: Option<String>,
}

/// Which weights a request gets, and what keeps them from being replaced under it.
#[derive(Debug)]
pub(crate) struct WeightsInUse {
    serving: RwLock<Arc<Serving>>,
    /// Requests that must not see the model replaced hold it for reading, and who replaces it for writing. It lets
    /// nobody overtake: requests that come while somebody waits to replace the model wait, too.
    turnstile: Arc<tokio::sync::RwLock<()>>,
    pub(crate) changeover: Changeover,
}

/// A request's hold on its weights. Once nobody else has the same, an adapter is unused.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) serving: Arc<Serving>,
    _turn: Option<Arc<OwnedRwLockReadGuard<()>>>,
}

impl WeightsInUse {
    pub(crate) fn new(changeover: Changeover) -> Self {
        Self { serving: RwLock::default(), turnstile: Arc::default(), changeover }
    }

    /// Waits while the model is being replaced.
    pub(crate) async fn hold(&self) -> Hold {
        let turn = match self.changeover {
            Changeover::Drain => Some(Arc::new(self.turnstile.clone().read_owned().await)),
            Changeover::InFlight => None,
        };
        Hold { serving: self.current(), _turn: turn }
    }

    pub(crate) fn current(&self) -> Arc<Serving> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until no request is under way whose weights must stay as they are. New ones wait until this is dropped.
    pub(crate) async fn alone(&self) -> Option<OwnedRwLockWriteGuard<()>> {
        match self.changeover {
            Changeover::Drain => Some(self.turnstile.clone().write_owned().await),
            Changeover::InFlight => None,
        }
    }

    /// Gives requests from now on something else; returns what they had.
    pub(crate) fn replace(&self, serving: Serving) -> Arc<Serving> {
        std::mem::replace(&mut *self.serving.write().unwrap_or_else(PoisonError::into_inner), Arc::new(serving))
    }
}
