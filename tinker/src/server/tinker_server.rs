use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::State;
use fulgurite_backends::BackendError;

use super::base::TinkerBase;
use super::error::run_blocking;
use super::futures::Futures;
use super::options::TinkerServerOptions;
use super::refusals::Refusal;
use super::registry::Registry;
use super::sampling::repeated_seeds::SeedCounts;
use super::sampling::sampled_requests::SampledRequests;
use crate::server::management::link_signer::LinkSigner;
use crate::server::sampling::weights_cache::WeightsCache;
use crate::server::state::records::Record;
use crate::server::state::state_directory::StateDirectory;
use crate::server::training::model::Model;

/// What handlers of routes take.
pub(crate) type Server = State<Arc<TinkerServer>>;

/// Sessions, models, samplers and checkpoints of clients that speak the Tinker API.
#[derive(Debug)]
pub struct TinkerServer {
    pub(crate) options: TinkerServerOptions,
    pub(crate) bases: Vec<Arc<TinkerBase>>,
    pub(crate) futures: Futures,
    pub(crate) seed_counts: SeedCounts,
    pub(crate) sampled: SampledRequests,
    pub(crate) weights: WeightsCache,
    pub(crate) state: StateDirectory,
    pub(crate) links: LinkSigner,
    pub(crate) registry: Mutex<Registry>,
}

impl TinkerServer {
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The base model of a name or path, either with `:peft:N` after it, too, if its context is `N` tokens or longer.
    pub(crate) fn base(&self, name: &str) -> Result<Arc<TinkerBase>, String> {
        let unknown = || {
            let names: Vec<&str> = self.bases.iter().map(|base| base.name.as_str()).collect();
            format!("there is no base model `{name}`; there is {}", names.join(", "))
        };
        for base in &self.bases {
            if base.is_named(name)? {
                return Ok(base.clone());
            }
        }
        Err(unknown())
    }

    /// A model that is in memory.
    pub(crate) fn model(&self, id: &str) -> Result<Model, Refusal> {
        let mut registry = self.registry();
        if let Some(model) = registry.models.get(id).cloned() {
            registry.last_seen.insert(model.session_id.clone(), Instant::now());
            return Ok(model);
        }
        let mut refusal = Refusal::not_found("model", id);
        if registry.runs.contains_key(id) {
            refusal.detail.push_str(" in memory any more: load one of its checkpoints into a new one");
        }
        Err(refusal)
    }

    /// Keeps a record durably.
    pub(crate) async fn keep<R: Record + Clone + Send + 'static>(&self, record: &R) -> Result<(), BackendError> {
        let (state, record) = (self.state.clone(), record.clone());
        run_blocking(move || state.keep(&record)).await
    }

    /// Deletes weights below the state directory, in memory too.
    pub(crate) async fn delete_weights(&self, directory: PathBuf) -> Result<(), BackendError> {
        self.weights.evict(&self.state.resolve(&directory)).await;
        let state = self.state.clone();
        run_blocking(move || state.delete_weights(&directory)).await
    }
}
