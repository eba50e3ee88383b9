use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulgurite_backends::Sampler;
use fulgurite_renderers::Renderer;
use fulgurite_store::model::GenerationFilter;
use fulgurite_store::{Store, StoreError};

use crate::error::ProxyError;
use crate::gateway::{Gate, RemoteModels};

/// One model that agents can ask for by name.
#[derive(Clone)]
pub struct ServedModel {
    /// What agents send in `model`.
    pub name: String,
    /// Conversation to tokens and back.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens to sampled tokens.
    pub sampler: Arc<dyn Sampler>,
}

/// Limits and choices of the proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Greatest request body, in bytes.
    pub body_limit: usize,
    /// Seed of calls whose rollout brings none of its own.
    pub seed: u64,
    /// Whether a call below an attempt's path is answered with token ids and logprobs though it did not ask for them,
    /// so that a tracer in the agent records them.
    pub token_ids_on_attributed_path: bool,
    /// Temperature of the gateway's calls in mode `train`, whatever the agent asks for.
    pub train_temperature: f32,
    /// The same in mode `val`.
    pub val_temperature: f32,
    /// For how long a stream says nothing before it gives a sign of life.
    pub keep_alive: Duration,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            body_limit: 32 * 1024 * 1024,
            seed: 0,
            token_ids_on_attributed_path: true,
            train_temperature: 1.0,
            val_temperature: 1.0,
            keep_alive: Duration::from_secs(10),
        }
    }
}

/// The models behind the door and the store that keeps the record. Cheap to clone.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) models: BTreeMap<String, ServedModel>,
    pub(crate) options: ProxyOptions,
    pub(crate) gate: Gate,
    pub(crate) remote_models: RemoteModels,
    pub(crate) started: f64,
    /// Calls so far by attempt, so that each call's seed has its place. Filled from the store on first sight of an
    /// attempt, so that a restarted server goes on counting.
    calls: Mutex<HashMap<String, u64>>,
}

/// Attempts whose call counters are kept in memory; past it the counters are read from the store again.
const MAXIMUM_COUNTED_ATTEMPTS: usize = 100_000;

impl Proxy {
    /// A proxy in front of `models`. With no models every call is answered with "no such model".
    pub fn new(store: Store, models: Vec<ServedModel>, options: ProxyOptions) -> Self {
        let models = models.into_iter().map(|model| (model.name.clone(), model)).collect();
        let started = crate::call::now();
        let shared = Shared {
            store,
            models,
            options,
            gate: Gate::default(),
            remote_models: RemoteModels::default(),
            started,
            calls: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn model(&self, name: &str) -> Result<&ServedModel, ProxyError> {
        self.shared.models.get(name).ok_or_else(|| ProxyError::UnknownModel {
            model: name.to_owned(),
            served: match self.shared.models.keys().cloned().collect::<Vec<_>>() {
                names if names.is_empty() => "none".to_owned(),
                names => names.join(", "),
            },
        })
    }

    /// The place of a new call in its attempt, counted from 0.
    pub(crate) async fn next_call_index(&self, rollout_id: &str, attempt_id: &str) -> Result<u64, StoreError> {
        let known = self.counters().contains_key(attempt_id);
        let recorded = if known { 0 } else { self.recorded_calls(rollout_id, attempt_id).await? };
        let mut counters = self.counters();
        if counters.len() >= MAXIMUM_COUNTED_ATTEMPTS {
            counters.clear();
        }
        let next = counters.entry(attempt_id.to_owned()).or_insert(recorded);
        let index = *next;
        *next += 1;
        Ok(index)
    }

    async fn recorded_calls(&self, rollout_id: &str, attempt_id: &str) -> Result<u64, StoreError> {
        let filter = GenerationFilter {
            rollout_id: Some(rollout_id.to_owned()),
            attempt_id: Some(attempt_id.to_owned()),
            ..GenerationFilter::default()
        };
        Ok(self.shared.store.generations(&filter).await?.len() as u64)
    }

    fn counters(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        // A counter is whole after every statement, so a poisoned lock holds nothing broken.
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
