//! `fulgurite serve`.

use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::models::{Backend, parse_model};
use fulgurite_config::seconds::seconds;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::{open_store, store_url};
use fulgurite_lab::run_routes;
use fulgurite_proxy::{ServedModel, unseen_tools};
use fulgurite_server::{AuxiliaryParts, Listening, MetricsPage, RunningServer, ServerWeights, write_ready_file};
use fulgurite_store::redact_url;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_tinker::server::{
    self as tinker_server, NamedCheckpoints, SavedWeightsSampler, TinkerBase, TinkerServer, TinkerServerOptions,
};
use fulgurite_training::models::base_weights::name_base_weights;
use fulgurite_training::models::open::OpenModel;

use crate::serve::arguments::ServeArguments;

/// Serves until it is told to stop.
pub async fn serve(arguments: ServeArguments) -> Result<()> {
    let metrics = MetricsPage::install()?;
    let mut loaded = LoadedConfig::read(arguments.config.as_deref())?;
    override_by_flags(&mut loaded.config, &arguments);
    let admin = admin_key::of_server(&loaded)?;
    let store_url = match &arguments.store {
        Some(url) => url.clone(),
        None => store_url(&loaded),
    };
    let named = arguments.models.iter().map(|spec| parse_model(spec)).collect::<Result<Vec<_>>>()?;
    if !loaded.config.models.iter().chain(&named).any(|entry| entry.backend == Backend::Embedded) {
        use_small_pages();
    }
    // What may be wrong is found out before there is a store, so that none is left behind.
    let listening = Listening::begin(&loaded.config.server, admin).await?.with(run_routes);
    let mut models = Vec::new();
    for entry in &loaded.config.models {
        models.push(OpenModel::open(entry, &loaded.directory, &loaded.config, &TerminalNotices)?);
    }
    for entry in &named {
        models.push(OpenModel::open(entry, "".as_ref(), &loaded.config, &TerminalNotices)?);
    }
    let tinker = tinker_api(&mut models, &loaded)?;
    let _lock = ExclusiveLock::of_store(&store_url, "fulgurite serve")?;
    let store = open_store(&store_url, &loaded.config.store).await?;
    let served = models.iter().map(|model| model.served.clone()).collect();
    let weights = ServerWeights::Published { base_weights: name_base_weights(&store, &models).await };
    let mut server =
        RunningServer::start(&loaded.config, listening, store.clone(), served, weights, tinker, &metrics).await?;
    server.reserve_judges(&loaded.config);
    // Whoever reads the ready file may send a signal at once.
    let mut interruptions = Interruptions::listen()?;
    if let Some(path) = &arguments.ready_file {
        write_ready_file(path, &server.url)?;
    }
    announce(&server.url, &redact_url(&store_url), &models, arguments.json);
    tokio::select! {
        error = server.failed() => return Err(error),
        () = interruptions.next() => {}
    }
    server.stop(interruptions.next()).await?;
    store.close().await;
    Ok(())
}

/// Puts what the command line or the environment says in place of what the config does.
pub fn override_by_flags(config: &mut Config, arguments: &ServeArguments) {
    if let Some(listen) = &arguments.listen {
        config.server.listen = listen.clone();
    }
    if let Some(interval) = arguments.watchdog_interval {
        config.server.watchdog_interval = interval;
    }
    if let Some(url) = &arguments.store {
        config.store.url = Some(url.clone());
    }
}

/// Takes memory in pages as small as the system has. A page of 2 MiB is cleared as one when it is first touched, which may
/// take milliseconds, and every call under way waits for it. Models in this process read so much memory that they are
/// better off with large pages.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "memory may come in huge pages");
    }
}

/// The Tinker API over the models in this process, if there are any. What it has saved can be put behind these by name, and
/// calls may name it in the place of a model.
fn tinker_api(models: &mut [OpenModel], loaded: &LoadedConfig) -> Result<AuxiliaryParts> {
    let bases: Vec<TinkerBase> = models.iter_mut().filter_map(|model| model.tinker.take()).collect();
    if bases.is_empty() {
        return Ok(AuxiliaryParts::default());
    }
    let config = &loaded.config.tinker_server;
    let directory = loaded.resolve(&config.directory);
    let options = TinkerServerOptions {
        threads: loaded.config.engine.threads,
        silence: seconds("tinker_server.session_seconds", config.session_seconds)?,
        requests_ahead: config.requests_ahead,
        stable_reinforce: config.stable_reinforce,
        repeated_seeds: config.repeated_seeds,
        body_limit: loaded.config.server.body_limit_bytes,
        ..TinkerServerOptions::new(directory.clone())
    };
    let server = TinkerServer::start(bases, options)
        .with_context(|| format!("cannot go on with what {} holds (tinker_server.directory)", directory.display()))?;
    for model in models {
        if let (ServedModel::Sampled(served), None) = (&mut model.served, &model.remote)
            && let Some(sampler) = SavedWeightsSampler::new(server.clone(), &served.name)
        {
            served.sampler = Arc::new(sampler);
        }
    }
    let kept_weights = Arc::new(NamedCheckpoints::new(server.clone()));
    Ok(AuxiliaryParts { routes: tinker_server::routes(server), kept_weights: Some(kept_weights) })
}

fn announce(url: &str, store: &str, models: &[OpenModel], json: bool) {
    let names: Vec<&str> = models.iter().map(|model| model.served.name()).collect();
    let of_model =
        |model: &OpenModel| unseen_tools_of(&model.served).into_iter().chain(renderer_warnings(&model.served));
    let warnings: Vec<String> = models.iter().flat_map(of_model).collect();
    if json {
        let mut line = serde_json::json!({ "event": "listening", "url": url, "store": store, "models": names });
        if !warnings.is_empty() {
            line["warnings"] = serde_json::json!(warnings);
        }
        output::line(line);
        return;
    }
    output::line(format!("listening on {url}"));
    output::line(format!("store        {store}"));
    output::line(format!("models       {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") }));
    for model in models {
        if let Some(place) = &model.remote {
            output::line(format!("             {}: {place}", model.served.name()));
        }
    }
    for warning in warnings {
        output::line(format!("note         {warning}"));
    }
}

/// What is to be said of a model that would not hear of tools.
fn unseen_tools_of(model: &ServedModel) -> Option<String> {
    match model {
        ServedModel::Sampled(sampled) if !sampled.renderer.shows_tools() => Some(unseen_tools(&sampled.name)),
        ServedModel::Sampled(_) | ServedModel::Upstream(_) => None,
    }
}

/// What may go wrong with a model's prompts and replies.
fn renderer_warnings(model: &ServedModel) -> Vec<String> {
    match model {
        ServedModel::Sampled(sampled) => {
            let of_model = |warning| format!("{}: {warning}", sampled.name);
            sampled.renderer.warnings().into_iter().map(of_model).collect()
        }
        ServedModel::Upstream(_) => Vec::new(),
    }
}
