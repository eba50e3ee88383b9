//! A run whose record is in a store of its own, without a server.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::records::run_directory::run_store_url;
use fulgurite_store::Store;
use fulgurite_trainer::Record;

use super::held_run::{HeldRun, RunLoss};
use super::new_run::{NewRunIn, StartedRun};
use super::owner::StoreAccess;
use super::run_directory::go_on_with_run;
use crate::notices::Notices;

/// A run that this process has, and its open store.
pub(crate) struct OwnRun {
    store: Store,
    run_id: String,
    held: HeldRun,
    _store_lock: Option<ExclusiveLock>,
}

impl OwnRun {
    /// Opens the store of a run whose directory is locked, begins the run there or finds it, and gets it for this process.
    ///
    /// # Errors
    /// If another process has the store or the run, or there is no run to resume.
    pub(crate) async fn open(
        directory: &Path,
        loaded: &LoadedConfig,
        resume: bool,
        notices: &dyn Notices,
    ) -> Result<Self> {
        let store_url = run_store_url(loaded, directory);
        let store_lock = ExclusiveLock::of_store(&store_url, "fulgurite train")?;
        let store = open_store(&store_url, &loaded.config.store).await?;
        let (record, access): (Arc<dyn Record>, _) =
            (Arc::new(store.clone()), StoreAccess::of_lock(store_lock.as_ref()));
        let (run_id, held) = if resume {
            let run_id = go_on_with_run(&store, None, loaded, directory).await?;
            let held = HeldRun::claim(&record, &run_id, directory, access).await?;
            (run_id, held)
        } else {
            let new =
                NewRunIn { record: &record, model: None, loaded, directory, servers_store: None, access, notices };
            let StartedRun { run_id, held } = new.begin().await?;
            (run_id, held)
        };
        Ok(Self { store, run_id, held, _store_lock: store_lock })
    }

    /// Trains the run, gives it back and closes its store.
    pub(crate) async fn during<T, W>(self, train: impl FnOnce(Store, String, RunLoss) -> W) -> Result<T>
    where
        W: Future<Output = Result<T>>,
    {
        let Self { store, run_id, held, _store_lock } = self;
        let loss = held.loss();
        let outcome = held.during(train(store.clone(), run_id, loss)).await;
        store.close().await;
        outcome
    }
}
