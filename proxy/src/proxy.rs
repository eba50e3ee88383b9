use std::sync::Arc;

use fulgurite_store::Store;

use crate::attempt::attempt_memories::AttemptMemories;
use crate::models::named_weights::NamedWeights;
use crate::models::pause_state::PauseState;
use crate::models::registered_models::RegisteredModels;
use crate::models::served_model::ServedModel;
use crate::models::served_models::ServedModels;
use crate::models::template_work::TemplateWork;
use crate::models::weights::follower::{FollowingModel, FollowingServer, WeightsFollower};
use crate::observe::telemetry::Telemetry;
use crate::options::ProxyOptions;
use crate::parts::Parts;
use crate::retries::request_log::RequestLog;
use crate::state::auxiliary_rules::{AuxiliaryRuleError, AuxiliaryRules};
use crate::state::call_services::CallServices;
use crate::state::forwarded_calls::ForwardedCalls;
use crate::state::planning_rules::PlanningRules;
use crate::state::shutdown::Shutdown;
use fulgurite_types::time::now;

/// The models behind the door and the store that keeps the record. Cheap to clone.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) parts: Arc<Parts>,
}

/// Requests of sessions, and forwarded ones, that are kept once they are over, so that their retries are recognised.
const SESSION_REQUESTS_KEPT: usize = 10_000;

impl Proxy {
    /// A proxy in front of `models`. With no models every call is answered with "no such model".
    /// Fails if a rule for auxiliary calls cannot be used.
    pub fn new(store: Store, models: Vec<ServedModel>, options: ProxyOptions) -> Result<Self, AuxiliaryRuleError> {
        Self::with_named_weights(store, models, None, options)
    }

    /// As [`Proxy::new`], with weights that calls may name in the place of a model.
    pub fn with_named_weights(
        store: Store,
        models: Vec<ServedModel>,
        named_weights: Option<NamedWeights>,
        options: ProxyOptions,
    ) -> Result<Self, AuxiliaryRuleError> {
        let (shutdown, large_requests) = (Shutdown::default(), options.large_requests.share());
        let templates = TemplateWork { places: large_requests.clone(), cut: shutdown.cut() };
        let models = ServedModels::new(models, templates.clone()).with_named_weights(named_weights);
        let planning = PlanningRules {
            continuation: options.continuation,
            schema_bytes: options.schema_bytes,
            silence: options.sampling_limits.silence,
            seed: options.seed,
            auxiliary: AuxiliaryRules::new(&options.auxiliary_rules)?,
        };
        let services = Arc::new(CallServices {
            store,
            memories: AttemptMemories::new(options.conversation_memory_bytes),
            shutdown,
            limits: options.sampling_limits,
        });
        let remembering = Arc::downgrade(&services);
        services.store.notify_of_ended_attempts(move |rollout_id, attempt_id| {
            if let Some(services) = remembering.upgrade() {
                services.memories.forget(rollout_id, attempt_id);
            }
        });
        let parts = Parts {
            telemetry: Arc::new(Telemetry::new(models.names())),
            large_requests,
            templates,
            models,
            services,
            planning,
            session_requests: RequestLog::new(SESSION_REQUESTS_KEPT),
            forwarded_calls: Arc::new(ForwardedCalls::new(SESSION_REQUESTS_KEPT)),
            gateway_pause: PauseState::default(),
            registered_models: RegisteredModels::default(),
            started: now(),
            options,
        };
        Ok(Self { parts: Arc::new(parts) })
    }

    /// Keeps the models at the weights that the store's servers publish, from now on. Calls of models that have such weights
    /// are held until they are there, so that none is answered with others.
    pub async fn follow_published_weights(&self, server: FollowingServer) -> WeightsFollower {
        let Parts { models, services, options, .. } = &*self.parts;
        let following = |name: &String| {
            let of = self.parts.weights_of(name).ok()?;
            Some(FollowingModel {
                weights: models.weights(name).ok()?.clone(),
                of,
                gate: models.gate(name).ok()?.clone(),
            })
        };
        let following = models.names().filter_map(following).collect();
        let host_patience = options.sampling_limits.host_patience;
        WeightsFollower::start(services.store.clone(), server, following, host_patience).await
    }

    /// Keeps models to graders, and to who has the admin key, from now on. Names that nothing is served by are no harm. Only the
    /// first of several such calls counts.
    pub fn reserve_for_graders(&self, names: impl IntoIterator<Item = String>) {
        self.parts.models.reserve(names.into_iter().collect());
    }

    /// Aborts every answer that is being sampled. What was sampled is recorded, as of a client that has left, and listeners
    /// get an error.
    pub fn cut_short(&self) {
        self.parts.services.shutdown.cut_short();
    }

    /// Ends once no answer is being sampled or recorded.
    pub async fn settled(&self) {
        self.parts.services.shutdown.settled().await;
    }
}
