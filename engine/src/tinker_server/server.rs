use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use fulgurite_backends::BackendError;
use serde_json::Value;

use super::downloads::LinkSigner;
use super::futures::Futures;
use super::model::Model;
use super::refusals::Refusal;
use super::state_directory::{CheckpointRecord, Record, RunRecord, SamplerRecord, SessionRecord, StateDirectory, now};
use super::weights_cache::WeightsCache;
use crate::files::{CONFIG, GENERATION_CONFIG};
use crate::published::WeightsSnapshot;
use crate::weights::Weights;
use crate::{EmbeddedSampler, Engine, EngineError, ModelConfig};

/// How often sessions and checkpoints are looked at that nobody may need any more.
const SWEEP: Duration = Duration::from_secs(15);

/// How the server is.
#[derive(Clone, Debug)]
pub struct TinkerServerOptions {
    /// Keeps what outlives the process: checkpoints, and what there is. Made when it is first needed.
    pub state_directory: PathBuf,
    /// Threads of each training run. Changes no result.
    pub threads: usize,
    /// How long a request for a result is held that is not there yet. Clients wait 45 seconds.
    pub patience: Duration,
    /// How long a session may be silent before it is over, and its models gone.
    pub silence: Duration,
    /// How many requests a training run takes beyond the one that it works at; at least the chunks of one pass, of which
    /// clients send the first last.
    pub requests_ahead: u64,
    /// Greatest request body, in bytes.
    pub body_limit: usize,
}

impl TinkerServerOptions {
    /// As clients expect it.
    pub fn new(state_directory: PathBuf) -> Self {
        Self {
            state_directory,
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            patience: Duration::from_secs(20),
            silence: Duration::from_secs(300),
            requests_ahead: 1024,
            body_limit: 64 * 1024 * 1024,
        }
    }
}

/// A model that training runs may begin with and that can be sampled from.
#[derive(Debug)]
pub struct TinkerBase {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) sampler: Arc<EmbeddedSampler>,
    /// As the model was opened: what adapters stand beside, whatever is put behind the sampler.
    pub(super) weights: Arc<Weights>,
    /// The same, to be sampled from.
    pub(super) opened: WeightsSnapshot,
    pub(super) config: ModelConfig,
    /// What the model ends texts with.
    pub(super) ends: Vec<u32>,
}

impl TinkerBase {
    /// The model of an engine, under a name. It is known by its directory's absolute path, too. Texts can end an answer
    /// only if the engine was opened with the model's vocabulary.
    pub fn new(name: &str, engine: &Engine) -> Result<Self, EngineError> {
        let directory = engine.directory();
        let directory = std::fs::canonicalize(directory).map_err(EngineError::io("find", directory))?;
        Ok(Self {
            name: name.to_owned(),
            ends: ends(&directory, engine.config())?,
            sampler: engine.sampler(),
            weights: engine.weights(),
            opened: engine.sampler().snapshot(),
            config: engine.config().clone(),
            directory,
        })
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.directory == Path::new(name)
    }
}

/// The tokens that a model ends texts with, as its directory tells.
fn ends(directory: &Path, config: &ModelConfig) -> Result<Vec<u32>, EngineError> {
    let path = directory.join(GENERATION_CONFIG);
    let told = match path.exists() {
        true => {
            let text = std::fs::read(&path).map_err(EngineError::io("read", &path))?;
            let malformed =
                |error: serde_json::Error| EngineError::Malformed { path: path.clone(), message: error.to_string() };
            serde_json::from_slice::<Value>(&text).map_err(malformed)?["eos_token_id"].clone()
        }
        false => Value::Null,
    };
    let told = if told.is_null() { config.other.get("eos_token_id").cloned().unwrap_or_default() } else { told };
    let all = if let Value::Array(all) = told { all } else { Vec::from([told]) };
    let token = |id: &Value| match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(id),
        None => Err(EngineError::Malformed {
            path: directory.join(CONFIG),
            message: format!("eos_token_id is {id}, but must be a token's id or a list of them"),
        }),
    };
    all.iter().filter(|id| !id.is_null()).map(token).collect()
}

/// Sessions, models, samplers and checkpoints of clients that speak the Tinker API.
#[derive(Debug)]
pub struct TinkerServer {
    pub(super) options: TinkerServerOptions,
    pub(super) bases: Vec<Arc<TinkerBase>>,
    pub(super) futures: Futures,
    pub(super) weights: WeightsCache,
    pub(super) state: StateDirectory,
    pub(super) links: LinkSigner,
    registry: Mutex<Registry>,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) sessions: BTreeMap<String, SessionRecord>,
    pub(super) runs: BTreeMap<String, RunRecord>,
    pub(super) checkpoints: BTreeMap<String, CheckpointRecord>,
    pub(super) samplers: BTreeMap<String, SamplerRecord>,
    /// Training runs that are in memory.
    pub(super) models: HashMap<String, Model>,
    /// When each session was last heard of by this process.
    pub(super) heard: HashMap<String, Instant>,
}

impl Registry {
    /// The project that a training run belongs to.
    pub(super) fn project_of<'a>(&'a self, run: &'a RunRecord) -> Option<&'a str> {
        let of_session = || self.sessions.get(&run.session_id)?.project_id.as_deref();
        run.project_id.as_deref().or_else(of_session)
    }
}

impl TinkerServer {
    /// Offers these models, and goes on with what the state directory holds. Called within a Tokio runtime.
    pub fn start(bases: Vec<TinkerBase>, options: TinkerServerOptions) -> Result<Arc<Self>, EngineError> {
        let state = StateDirectory::new(options.state_directory.clone());
        let registry = Registry {
            sessions: state.read()?,
            runs: state.read()?,
            checkpoints: state.read()?,
            samplers: state.read()?,
            ..Registry::default()
        };
        let server = Arc::new(Self {
            options,
            bases: bases.into_iter().map(Arc::new).collect(),
            futures: Futures::default(),
            weights: WeightsCache::default(),
            state,
            links: LinkSigner::new()?,
            registry: Mutex::new(registry),
        });
        tokio::spawn(sweep(Arc::downgrade(&server)));
        Ok(server)
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The base model of a name or path.
    pub(super) fn base(&self, name: &str) -> Result<Arc<TinkerBase>, String> {
        let unknown = || {
            let names: Vec<&str> = self.bases.iter().map(|base| base.name.as_str()).collect();
            format!("there is no base model `{name}`; there is {}", names.join(", "))
        };
        self.bases.iter().find(|base| base.is_called(name)).cloned().ok_or_else(unknown)
    }

    /// A model that is in memory.
    pub(super) fn model(&self, id: &str) -> Result<Model, Refusal> {
        let mut registry = self.registry();
        if let Some(model) = registry.models.get(id).cloned() {
            registry.heard.insert(model.session_id.clone(), Instant::now());
            return Ok(model);
        }
        let mut refusal = Refusal::not_found("model", id);
        if registry.runs.contains_key(id) {
            refusal.detail.push_str(" in memory any more: load one of its checkpoints into a new one");
        }
        Err(refusal)
    }

    /// Keeps a record durably.
    pub(super) async fn keep<R: Record + Clone + Send + 'static>(&self, record: &R) -> Result<(), BackendError> {
        let (state, record) = (self.state.clone(), record.clone());
        run_blocking(move || state.keep(&record)).await
    }
}

/// Runs what reads or writes files.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, BackendError> {
    let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
    Ok(tokio::task::spawn_blocking(work).await.map_err(panicked)??)
}

/// Forgets results that were told, ends sessions that nobody keeps alive and deletes checkpoints whose time has come, for as long as the server is there.
async fn sweep(server: Weak<TinkerServer>) {
    loop {
        let pause = server.upgrade().map_or(SWEEP, |server| server.options.silence.min(SWEEP));
        tokio::time::sleep(pause).await;
        let Some(server) = server.upgrade() else { return };
        server.futures.sweep(Instant::now());
        for session_id in server.silent_sessions(Instant::now()) {
            tracing::info!(session_id, "a session of the Tinker API is over: nobody has kept it alive");
            if let Err(error) = server.end_session(&session_id, None).await {
                tracing::warn!(%error, session_id, "a session that is over cannot be cleared away");
            }
        }
        for path in server.expired_checkpoints(now()) {
            tracing::info!(path, "a checkpoint's time has come");
            if let Err(refusal) = server.delete_checkpoint(&path).await {
                tracing::warn!(error = refusal.detail, path, "a checkpoint whose time has come cannot be deleted");
            }
        }
    }
}
