//! The server in this process that a run's agents call.

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::run_routes;
use fulgurite_proxy::ServedModel;
use fulgurite_server::{Listening, MetricsPage, RunningServer};
use fulgurite_store::{AdminKey, Store};
use fulgurite_trainer::PolicyEndpoint;

use crate::auxiliary::served_models;
use crate::notices::Notices;

/// Starts a server of a policy and of the config's other models.
///
/// # Errors
/// If it cannot listen, or if a model cannot be opened.
pub(crate) async fn start_policy_server(
    loaded: &LoadedConfig,
    admin: Option<AdminKey>,
    store: &Store,
    policy: ServedModel,
    metrics: &MetricsPage,
    notices: &dyn Notices,
) -> Result<RunningServer> {
    let mut config = loaded.config.clone();
    if config.runner.runs_agents() {
        // A free port: such a run is no service that others must find, and several may run at once.
        config.server.listen = "127.0.0.1:0".to_owned();
    }
    let listening = Listening::begin(&config.server, admin).await?.with(run_routes);
    let served = [policy].into_iter().chain(served_models::open(loaded, notices)?).collect();
    RunningServer::start_private(&config, listening, store.clone(), served, metrics).await
}

/// Where agents call the policy at such a server. With an admin key they have a key for model calls, for so many seconds.
///
/// # Errors
/// If the store has no secret to issue keys by.
pub(crate) async fn policy_endpoint(
    server: &RunningServer,
    store: &Store,
    model: String,
    admin: Option<&AdminKey>,
    key_seconds: u64,
) -> Result<PolicyEndpoint> {
    let api_key = match admin {
        // Stored with the resources: it opens model calls, and nothing else.
        Some(_) => Some(store.issued_keys().await?.model_calls_key(key_seconds)),
        None => None,
    };
    Ok(PolicyEndpoint { url: format!("{}/v1", server.url), model, api_key })
}
