use std::sync::Arc;

use fulgurite_backends::FairShare;

use crate::error::ProxyError;
use crate::models::pause_state::PauseState;
use crate::models::registered_models::RegisteredModels;
use crate::models::served_models::ServedModels;
use crate::models::template_work::TemplateWork;
use crate::models::weights::model_weights::WeightsOf;
use crate::observe::telemetry::Telemetry;
use crate::options::ProxyOptions;
use crate::requests::incoming_request::Intake;
use crate::retries::request_log::RequestLog;
use crate::state::call_services::CallServices;
use crate::state::forwarded_calls::ForwardedCalls;
use crate::state::planning_rules::PlanningRules;

/// The parts of a proxy. Handlers of requests hand those on that a function uses.
pub(crate) struct Parts {
    pub(crate) options: ProxyOptions,
    pub(crate) models: ServedModels,
    pub(crate) services: Arc<CallServices>,
    pub(crate) planning: PlanningRules,
    /// Requests that belong to no attempt.
    pub(crate) session_requests: Arc<RequestLog>,
    pub(crate) forwarded_calls: Arc<ForwardedCalls>,
    /// Places in which large requests are worked at.
    pub(crate) large_requests: FairShare,
    pub(crate) templates: TemplateWork,
    pub(crate) telemetry: Arc<Telemetry>,
    /// Of the gateway alone.
    pub(crate) gateway_pause: PauseState,
    pub(crate) registered_models: RegisteredModels,
    /// Seconds since the epoch.
    pub(crate) started: f64,
}

impl Parts {
    /// What the weights of a model need that is sampled here.
    pub(crate) fn weights_of(&self, model: &str) -> Result<WeightsOf, ProxyError> {
        let Parts { models, services, options, .. } = self;
        Ok(WeightsOf {
            model: model.to_owned(),
            sampler: models.sampled(model)?.sampler.clone(),
            store: services.store.clone(),
            without_new_weights: options.without_new_weights,
        })
    }

    /// What requests are read with.
    pub(crate) fn intake(&self) -> Intake<'_> {
        let Parts { options, models, large_requests, .. } = self;
        Intake { body_limit: options.body_limit, models, large_requests }
    }
}
