use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulgurite_backends::{FairShare, Sampler, Upstream};
use fulgurite_renderers::{ContinuationPolicy, Renderer};
use fulgurite_store::Store;
use serde_json::{Map, Value};

use crate::attempt::attempt_memories::AttemptMemories;
use crate::attempt::budget::Budget;
use crate::call::auxiliary_rules::{AuxiliaryRule, AuxiliaryRuleError, AuxiliaryRules};
use crate::call::sampling::SamplingLimits;
use crate::call::shutdown::Ending;
use crate::door::large_requests::LargeRequestLimits;
use crate::error::ProxyError;
use crate::gateway::{Gateway, RemoteModels};
use crate::models::gate::Gate;
use crate::models::template_arguments::ArguedRenderers;
use crate::models::weights_loads::WeightsLoads;
use crate::observe::telemetry::Telemetry;
use crate::retries::request_log::RequestLog;
use crate::upstream::{KeptReplies, Passed};

/// One model that agents can ask for by name.
#[derive(Clone)]
pub enum ServedModel {
    /// It is sampled token by token, and may be trained.
    Sampled(SampledModel),
    /// Its calls are passed on, recorded, and never trained.
    Upstream(UpstreamModel),
}

impl ServedModel {
    /// What agents send in `model`.
    pub fn name(&self) -> &str {
        match self {
            ServedModel::Sampled(model) => &model.name,
            ServedModel::Upstream(model) => &model.name,
        }
    }

    /// The model, if it is sampled.
    pub(crate) fn sampled(&self) -> Option<&SampledModel> {
        match self {
            ServedModel::Sampled(model) => Some(model),
            ServedModel::Upstream(_) => None,
        }
    }

    /// Tokens that prompt and answer may have together, as far as that is known now.
    pub(crate) async fn context_length(&self) -> Option<usize> {
        // A remote host that cannot be asked now is listed all the same.
        self.sampled()?.sampler.info().await.ok().map(|info| info.context_length)
    }
}

/// A model that is sampled token by token.
#[derive(Clone)]
pub struct SampledModel {
    /// What agents send in `model`.
    pub name: String,
    /// Conversation to tokens and back.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens to sampled tokens.
    pub sampler: Arc<dyn Sampler>,
}

/// A model whose calls are passed on as they come.
#[derive(Clone)]
pub struct UpstreamModel {
    /// What agents send in `model`.
    pub name: String,
    /// What goes on in its place.
    pub upstream_name: String,
    /// Who answers.
    pub upstream: Arc<Upstream>,
}

/// Limits and choices of the proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Greatest request body, in bytes.
    pub body_limit: usize,
    /// Seed of calls whose rollout brings none of its own.
    pub seed: u64,
    /// Whether a call that names its rollout, by path or header, is answered with token ids and logprobs though it did not ask for them,
    /// so that a tracer in the agent records them.
    pub token_ids_on_attributed_path: bool,
    /// Temperature of the gateway's calls in mode `train`, whatever the agent asks for.
    pub train_temperature: f32,
    /// The same in mode `val`.
    pub val_temperature: f32,
    /// How turns that were sampled appear in later prompts of their conversation.
    pub continuation: ContinuationPolicy,
    /// Bytes that conversations of running attempts may take in memory, about. Those that do not fit are read from the
    /// store again.
    pub conversation_memory_bytes: usize,
    /// Which calls are recognised as made beside the task, and are not trained.
    pub auxiliary_rules: Vec<AuxiliaryRule>,
    /// What the calls of an attempt may take together. Sessions, which begin with a call of their own, have no budget.
    pub budget: Budget,
    /// How long a model's host may take.
    pub sampling_limits: SamplingLimits,
    /// For how long a stream says nothing before it gives a sign of life.
    pub keep_alive: Duration,
    /// How requests of more than 64 KiB are worked at.
    pub large_requests: LargeRequestLimits,
    /// Bytes that the schemas may have that an answer is to keep to.
    pub schema_bytes: usize,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            body_limit: 32 * 1024 * 1024,
            seed: 0,
            token_ids_on_attributed_path: true,
            train_temperature: 1.0,
            val_temperature: 1.0,
            continuation: ContinuationPolicy::default(),
            conversation_memory_bytes: 256 * 1024 * 1024,
            auxiliary_rules: AuxiliaryRule::built_in(),
            budget: Budget::default(),
            sampling_limits: SamplingLimits::default(),
            keep_alive: Duration::from_secs(10),
            large_requests: LargeRequestLimits::default(),
            schema_bytes: 256 * 1024,
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
    /// Of the gateway alone.
    pub(crate) gateway: Gateway,
    /// By model.
    pub(crate) gates: BTreeMap<String, Gate>,
    /// By model.
    weights_loads: BTreeMap<String, WeightsLoads>,
    pub(crate) remote_models: RemoteModels,
    pub(crate) ending: Ending,
    pub(crate) started: f64,
    /// What is known of the calls of attempts. Filled from the store on first sight of an attempt, so that a restarted
    /// server goes on where it was.
    pub(crate) memories: AttemptMemories,
    pub(crate) auxiliary_rules: AuxiliaryRules,
    /// Models of which the log has said that they hear of no tools.
    pub(crate) warned_of_tools: Mutex<BTreeSet<String>>,
    /// Requests that belong to no attempt.
    pub(crate) session_requests: Arc<RequestLog>,
    pub(crate) telemetry: Telemetry,
    /// Requests that are passed on, whosever they are.
    pub(crate) upstream_requests: Arc<RequestLog<Passed>>,
    pub(crate) kept_replies: KeptReplies,
    pub(crate) argued_renderers: ArguedRenderers,
    /// Places in which large requests are worked at.
    pub(crate) large_requests: FairShare,
}

/// Requests of sessions, and of those that are passed on, that are kept once they are over, so that their retries are recognised.
const SESSION_REQUESTS_KEPT: usize = 10_000;

impl Proxy {
    /// A proxy in front of `models`. With no models every call is answered with "no such model".
    /// Fails if a rule for side requests cannot be used.
    pub fn new(store: Store, models: Vec<ServedModel>, options: ProxyOptions) -> Result<Self, AuxiliaryRuleError> {
        let models: BTreeMap<_, _> = models.into_iter().map(|model| (model.name().to_owned(), model)).collect();
        let telemetry = Telemetry::new(models.keys());
        let gates = models.keys().map(|name| (name.clone(), Gate::default())).collect();
        let weights_loads = models.keys().map(|name| (name.clone(), WeightsLoads::default())).collect();
        let started = crate::call::model_call::now();
        let auxiliary_rules = AuxiliaryRules::new(&options.auxiliary_rules)?;
        let memories = AttemptMemories::new(options.conversation_memory_bytes);
        let large_requests = options.large_requests.share();
        let shared = Shared {
            store,
            models,
            options,
            gateway: Gateway::default(),
            gates,
            weights_loads,
            remote_models: RemoteModels::default(),
            ending: Ending::default(),
            started,
            memories,
            auxiliary_rules,
            warned_of_tools: Mutex::default(),
            session_requests: RequestLog::new(SESSION_REQUESTS_KEPT),
            telemetry,
            upstream_requests: RequestLog::new(SESSION_REQUESTS_KEPT),
            kept_replies: KeptReplies::default(),
            argued_renderers: ArguedRenderers::default(),
            large_requests,
        };
        let shared = Arc::new(shared);
        let remembering = Arc::downgrade(&shared);
        shared.store.tell_of_ended_attempts(move |rollout_id, attempt_id| {
            if let Some(shared) = remembering.upgrade() {
                shared.memories.forget(rollout_id, attempt_id);
            }
        });
        Ok(Self { shared })
    }

    /// A model that is sampled here.
    /// Cuts every answer short that is being sampled. What was sampled is recorded, as of a client that has left, and whoever
    /// listens is told that the server ends.
    pub fn cut_short(&self) {
        self.shared.ending.cut_short();
    }

    /// Ends once no answer is being sampled or recorded.
    pub async fn settled(&self) {
        self.shared.ending.settled().await;
    }

    pub(crate) fn sampled_model(&self, name: &str) -> Result<&SampledModel, ProxyError> {
        self.model(name)?.sampled().ok_or_else(|| {
            ProxyError::invalid("model", format!("the calls of `{name}` are passed on, and not sampled here"))
        })
    }

    /// The model that a request's body names, if its calls are passed on.
    pub(crate) fn upstream_model(&self, fields: &Map<String, Value>) -> Option<&UpstreamModel> {
        self.upstream_named(fields.get("model")?.as_str()?)
    }

    /// The model of that name, if its calls are passed on.
    pub(crate) fn upstream_named(&self, name: &str) -> Option<&UpstreamModel> {
        match self.shared.models.get(name)? {
            ServedModel::Upstream(model) => Some(model),
            ServedModel::Sampled(_) => None,
        }
    }

    pub(crate) fn model(&self, name: &str) -> Result<&ServedModel, ProxyError> {
        self.shared.models.get(name).ok_or_else(|| self.unknown_model(name))
    }

    /// What holds a model's calls.
    pub(crate) fn gate(&self, name: &str) -> Result<&Gate, ProxyError> {
        self.shared.gates.get(name).ok_or_else(|| self.unknown_model(name))
    }

    /// What puts weights behind a model.
    pub(crate) fn weights_loads(&self, name: &str) -> Result<&WeightsLoads, ProxyError> {
        self.shared.weights_loads.get(name).ok_or_else(|| self.unknown_model(name))
    }

    fn unknown_model(&self, name: &str) -> ProxyError {
        ProxyError::UnknownModel {
            model: name.to_owned(),
            served: match self.shared.models.keys().cloned().collect::<Vec<_>>() {
                names if names.is_empty() => "none".to_owned(),
                names => names.join(", "),
            },
        }
    }
}
