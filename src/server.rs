//! The rooms joined into one HTTP server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::middleware::{from_fn, from_fn_with_state};
use fulgurite_engine::{Engine, EngineOptions, TokenText, Vocabulary};
use fulgurite_proxy::{Budget, Proxy, ProxyOptions, SampledModel, ServedModel};
use fulgurite_renderers::Tokenizer;
use fulgurite_store::{AdminKey, Keyring, RouteOptions, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::access;
use crate::config::Config;
use crate::metrics_page::MetricsPage;
use crate::trace_export::{Collector, TraceExport};

/// A model that this process samples from, and may train.
pub struct LoadedModel {
    /// As agents know it.
    pub served: SampledModel,
    /// What holds it.
    pub engine: Engine,
}

impl LoadedModel {
    /// Opens a model directory.
    pub fn open(name: &str, path: &Path, renderer: &str) -> Result<Self> {
        let model = || format!("model `{name}`");
        let renderer = fulgurite_renderers::open_renderer(path, renderer).with_context(model)?;
        let engine = Engine::open_with_vocabulary(path, &vocabulary(renderer.tokenizer()), EngineOptions::default())
            .with_context(model)?;
        let served = SampledModel { name: name.to_owned(), renderer, sampler: engine.sampler() };
        Ok(Self { served, engine })
    }
}

/// What the engine must know of a tokenizer to keep answers to a grammar.
fn vocabulary(tokenizer: &Tokenizer) -> Vocabulary {
    let text = |id: u32| match tokenizer.id_to_bytes(id) {
        None => TokenText::Unused,
        Some(name) if tokenizer.is_control(id) => TokenText::Control(name.to_vec()),
        Some(bytes) => TokenText::Text(bytes.to_vec()),
    };
    (0..tokenizer.vocabulary_size() as u32).map(text).collect()
}

/// A server that answers.
pub struct RunningServer {
    /// Where, as `http://ADDRESS:PORT`.
    pub url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
    watchdog: Option<JoinHandle<()>>,
    upkeep: JoinHandle<()>,
    export: Option<TraceExport>,
}

impl RunningServer {
    /// Listens, and answers from now on. With an admin key, only who has a key is answered.
    pub async fn start(
        config: &Config,
        admin: Option<AdminKey>,
        store: Store,
        models: Vec<ServedModel>,
        metrics: &MetricsPage,
    ) -> Result<Self> {
        let interval = config.server.watchdog_interval;
        if !(interval.is_finite() && interval >= 0.0) {
            bail!("server.watchdog_interval is {interval}, but must be a number of seconds, 0 for before each call");
        }
        let scan_before_calls = interval == 0.0;
        let body_limit = config.server.body_limit_bytes;
        let listener = listen(&config.server.listen, admin.is_some()).await?;
        let address = listener.local_addr().context("the listening socket has no address")?;
        let proxy_options = ProxyOptions {
            body_limit,
            seed: config.run.seed,
            token_ids_on_attributed_path: config.proxy.token_ids_on_attributed_path,
            train_temperature: config.proxy.train_temperature,
            val_temperature: config.proxy.val_temperature,
            continuation: config.proxy.continuation,
            conversation_memory_bytes: config.proxy.conversation_memory_bytes,
            auxiliary_rules: config.proxy.auxiliary_rules.clone(),
            budget: budget(config.proxy.budget)?,
            keep_alive: keep_alive(config.proxy.keep_alive_seconds)?,
        };
        let collector = Collector::find(&config.telemetry, |name| std::env::var(name).ok())?;
        let export =
            collector.map(|collector| TraceExport::start(collector, &store, config.telemetry.content)).transpose()?;
        let proxy = Proxy::new(store.clone(), models, proxy_options)?;
        let keyring = Keyring { admin, issued: store.issued_keys().await?.clone() };
        let router = fulgurite_proxy::routes(proxy)
            .merge(fulgurite_store::routes_with(store.clone(), RouteOptions { body_limit, scan_before_calls }))
            .merge(metrics.routes())
            .fallback(fulgurite_proxy::unknown_route)
            .layer(from_fn_with_state(keyring, access::check));
        // Outside of all, so that what is refused has its line too.
        let router = match config.server.access_log {
            true => router.layer(from_fn(fulgurite_proxy::log_access)),
            false => router,
        };
        let watchdog = (!scan_before_calls).then(|| store.spawn_watchdog(Duration::from_secs_f64(interval)));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                // A dropped sender stops the server as well.
                let _ = stopped.await;
            };
            axum::serve(listener, router).with_graceful_shutdown(shutdown).await
        });
        Ok(Self { url: format!("http://{address}"), stop, task, watchdog, upkeep: metrics.spawn_upkeep(), export })
    }

    /// Lets calls in flight finish, for a while, and stops.
    pub async fn stop(self) -> Result<()> {
        // The server may have stopped by itself; then there is nobody to tell.
        let _ = self.stop.send(());
        if let Some(watchdog) = self.watchdog {
            watchdog.abort();
        }
        self.upkeep.abort();
        let finished = tokio::time::timeout(Duration::from_secs(10), self.task).await;
        if let Some(export) = self.export {
            export.stop().await;
        }
        match finished {
            Ok(finished) => Ok(finished.context("the server broke")??),
            Err(_) => Ok(()),
        }
    }

    /// Ends when the server does, which it should not.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::anyhow!("the server stopped"),
            Ok(Err(error)) => anyhow::Error::new(error).context("the server failed"),
            Err(error) => anyhow::Error::new(error).context("the server broke"),
        }
    }
}

/// What an attempt may take, once it is known to be a number.
fn budget(budget: Budget) -> Result<Budget> {
    match budget.seconds {
        Some(seconds) if !(seconds.is_finite() && seconds >= 0.0) => {
            bail!("proxy.budget.seconds is {seconds}, but must be a number of seconds")
        }
        _ => Ok(budget),
    }
}

/// The time after which a quiet stream gives a sign of life.
fn keep_alive(seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(quiet) if !quiet.is_zero() => Ok(quiet),
        _ => bail!("proxy.keep_alive_seconds is {seconds}, but must be a number of seconds above 0"),
    }
}

async fn listen(address: &str, has_admin_key: bool) -> Result<TcpListener> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} (server.listen)"))?;
    let local = listener.local_addr().context("the listening socket has no address")?;
    if !local.ip().is_loopback() && !has_admin_key {
        bail!(
            "server.listen is {address}: without an admin key the server listens on loopback addresses only \
             (FULGURITE_ADMIN_KEY, server.admin_key_env or server.admin_key_file sets one)"
        );
    }
    Ok(listener)
}

/// Writes `{"url": ..., "pid": ...}` in one step, so that nobody reads half of it.
pub fn write_ready_file(path: &Path, url: &str) -> Result<()> {
    let fresh: PathBuf = path.with_extension("new");
    let ready = serde_json::json!({ "url": url, "pid": std::process::id() });
    std::fs::write(&fresh, format!("{ready}\n"))
        .and_then(|()| std::fs::rename(&fresh, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Ends at ctrl-c or when the process is told to terminate.
pub async fn interrupted() -> Result<()> {
    interruption()?.await;
    Ok(())
}

/// As [`interrupted`], but a signal counts from now on, not only once somebody waits for it.
pub fn interruption() -> Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
