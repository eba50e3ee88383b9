//! The rooms joined into one HTTP server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use fulgurite_agentlightning::Overdue;
use fulgurite_api::{Need, Serving, Turns, TurnsFull};
use fulgurite_backends::{FairShare, KeptWeights, ShareLimits};
use fulgurite_config::declarations::{Config, ProxyConfig, ServerConfig};
use fulgurite_config::sampling_limits::sampling_limits;
use fulgurite_config::seconds::seconds;
use fulgurite_dashboard::{PageModel, Tokenizers};
use fulgurite_proxy::{
    Budget, FollowingServer, LargeRequestLimits, NamedWeights, Proxy, ProxyOptions, SampledModel, ServedModel,
    WeightsFollower,
};
use fulgurite_runner::RubricOptions;
use fulgurite_store::{AdminKey, Keyring, Store};
use fulgurite_types::WeightsId;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::access::{self, Entrance};
use crate::http::connections;
use crate::http::gate::Gate;
use crate::http::limited_stream::ConnectionLimits;
use crate::metrics_page::MetricsPage;
use crate::routes::all_routes;
use crate::trace_export::{Collector, TraceExport};
use crate::web_origins::WebOrigins;

/// The tokenizers of the models that are sampled from, by their fingerprints.
fn tokenizers(models: &[ServedModel]) -> Tokenizers {
    let sampled = models.iter().filter_map(ServedModel::sampled);
    let of_model =
        |model: &SampledModel| (model.renderer.tokenizer().fingerprint().to_owned(), Arc::clone(&model.renderer));
    sampled.map(of_model).collect()
}

/// The same models, as the page has them.
fn page_models(models: &[ServedModel]) -> Vec<PageModel> {
    let sampled = models.iter().filter_map(ServedModel::sampled).cloned();
    sampled.map(|SampledModel { name, renderer, sampler }| PageModel { name, renderer, sampler }).collect()
}

/// Bodies of one key, and of all, that may wait to be read for the store. What they say is not asked for again by every
/// client, so that few are refused; each is in memory already.
const BODIES_WAITING: (usize, usize) = (1024, 4096);

/// The places at which the store's large bodies are read, as many as for large model requests.
struct BodyTurns(FairShare);

impl BodyTurns {
    fn new(config: &ProxyConfig) -> Self {
        let (waiting_of_owner, waiting) = BODIES_WAITING;
        let places = config.large_requests_at_once.max(1);
        Self(FairShare::new(ShareLimits { places, waiting_of_owner, waiting }))
    }
}

impl Turns for BodyTurns {
    fn enter(&self, owner: String) -> BoxFuture<'_, Result<Box<dyn Send>, TurnsFull>> {
        Box::pin(async move {
            let place = self.0.enter(&owner).await.map_err(|full| TurnsFull { waiting: full.waiting })?;
            Ok(Box::new(place) as Box<dyn Send>)
        })
    }
}

/// What a server has beside the proxy and the store.
#[derive(Default)]
pub struct AuxiliaryParts {
    /// Routes of their own.
    pub routes: Router,
    /// Weights that calls may name in the place of a model.
    pub kept_weights: Option<Arc<dyn KeptWeights>>,
}

impl From<Router> for AuxiliaryParts {
    fn from(routes: Router) -> Self {
        Self { routes, kept_weights: None }
    }
}

/// For what is cut short when the server ends: to be told, to be recorded, to be sent.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A server that answers.
pub struct RunningServer {
    /// Where, as `http://ADDRESS:PORT`.
    pub url: String,
    store: Store,
    proxy: Proxy,
    gate: Gate,
    /// For what was begun, once the server ends.
    patience: Duration,
    task: JoinHandle<()>,
    watchdog: Option<JoinHandle<()>>,
    upkeep: JoinHandle<()>,
    export: Option<TraceExport>,
    follower: Option<WeightsFollower>,
}

/// Which weights a server's models have.
pub enum ServerWeights {
    /// Those that they were started with, and those that this process or its clients put there.
    Own,
    /// Those that are published in the store; until some are, their own, which are these where that is known.
    Published {
        /// The weights that each model was started with, by its name.
        base_weights: BTreeMap<String, WeightsId>,
    },
}

/// The address at which other machines may find a server: one that listens everywhere is known by its machine's name.
fn named_address(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    // Elsewhere than on Linux the address stands as it is.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => address.to_string(),
        name => format!("{name}:{}", address.port()),
    }
}

/// Has a proxy take weights that are published in the store.
async fn follow(
    proxy: &Proxy,
    store: &Store,
    url: String,
    base_weights: BTreeMap<String, WeightsId>,
) -> Result<WeightsFollower> {
    let published = store.weights().publications().await?;
    Ok(proxy.follow_published_weights(FollowingServer { url, published, base_weights }).await)
}

/// What the config says of the proxy.
fn proxy_options(config: &Config) -> Result<ProxyOptions> {
    Ok(ProxyOptions {
        body_limit: config.server.body_limit_bytes,
        seed: config.run.seed,
        token_ids_on_attributed_path: config.proxy.token_ids_on_attributed_path,
        train_temperature: config.proxy.train_temperature,
        val_temperature: config.proxy.val_temperature,
        continuation: config.proxy.continuation,
        conversation_memory_bytes: config.proxy.conversation_memory_bytes,
        conversation_gap: conversation_gap(config.proxy.conversation_gap_seconds)?,
        auxiliary_rules: config.proxy.auxiliary_rules.clone(),
        budget: budget(config.proxy.budget)?,
        sampling_limits: sampling_limits(&config.proxy)?,
        keep_alive: seconds("proxy.keep_alive_seconds", config.proxy.keep_alive_seconds)?,
        schema_bytes: config.proxy.schema_bytes,
        unknown_fields: config.proxy.unknown_fields,
        without_new_weights: config.server.without_new_weights,
        large_requests: LargeRequestLimits {
            at_once: config.proxy.large_requests_at_once,
            waiting: config.proxy.large_requests_waiting,
        },
    })
}

impl RunningServer {
    /// Starts a server for one command's own work: its models have weights of their own, and nothing is served beside them.
    pub async fn start_private(
        config: &Config,
        listening: Listening,
        store: Store,
        models: Vec<ServedModel>,
        metrics: &MetricsPage,
    ) -> Result<Self> {
        Self::start(config, listening, store, models, ServerWeights::Own, Router::new(), metrics).await
    }

    /// Listens, and answers from now on, with what is `auxiliary` the proxy and the store, too. With an admin key, only who has
    /// a key is answered.
    pub async fn start(
        config: &Config,
        listening: Listening,
        store: Store,
        models: Vec<ServedModel>,
        weights: ServerWeights,
        auxiliary: impl Into<AuxiliaryParts>,
        metrics: &MetricsPage,
    ) -> Result<Self> {
        let Listening {
            listener,
            address,
            admin,
            origins,
            connection_limits,
            patience,
            watchdog_interval,
            around,
            store_routes,
        } = listening;
        let body_limit = config.server.body_limit_bytes;
        let options = proxy_options(config)?;
        let collector = Collector::find(&config.telemetry, |name| std::env::var(name).ok())?;
        let export =
            collector.map(|collector| TraceExport::start(collector, &store, config.telemetry.content)).transpose()?;
        let (tokenizers, page_models) = (tokenizers(&models), page_models(&models));
        let AuxiliaryParts { routes: more_routes, kept_weights: named } = auxiliary.into();
        // Whoever may sample from them over the API that keeps them.
        let need = admin.as_ref().map_or(Need::Nothing, |_| Need::Admin);
        let named = named.map(|weights| NamedWeights { weights, need });
        let proxy = Proxy::with_named_weights(store.clone(), models, named, options)?;
        let url = format!("http://{}", named_address(address));
        let follower = match weights {
            ServerWeights::Own => None,
            ServerWeights::Published { base_weights } => Some(follow(&proxy, &store, url, base_weights).await?),
        };
        let gate = Gate::new();
        let serving = Serving { body_limit, turns: Arc::new(BodyTurns::new(&config.proxy)) };
        let overdue = if watchdog_interval.is_some() { Overdue::ByTimer } else { Overdue::BeforeCalls };
        let keyring = Keyring { admin, issued: store.issued_keys().await?.clone() };
        let (routes, needs) =
            all_routes(proxy.clone(), store.clone(), &keyring, tokenizers, page_models, &serving, overdue);
        let entrance = Arc::new(Entrance { gate: gate.clone(), keyring, needs, body_limit, origins });
        let routes = store_routes.iter().fold(routes, |routes, more| routes.merge(more(&store)));
        let router = routes
            .merge(metrics.routes())
            .merge(more_routes)
            .fallback(unknown_route)
            .layer(from_fn_with_state(entrance, access::check));
        let watchdog = watchdog_interval.map(|interval| store.attempts().spawn_watchdog(interval));
        // Outside of all, so that what is refused has its line too.
        let router = if config.server.access_log { router.layer(from_fn(fulgurite_proxy::log_access)) } else { router };
        let router = around.into_iter().fold(router, |router, around| around(router));
        store.servers().start().await?;
        #[expect(clippy::disallowed_methods, reason = "the server holds it")]
        let task = tokio::spawn(connections::serve(listener, router, connection_limits, gate.clone()));
        let (url, upkeep) = (format!("http://{address}"), metrics.spawn_upkeep());
        Ok(Self { url, store, proxy, gate, patience, task, watchdog, upkeep, export, follower })
    }

    /// Keeps the judges whose calls `[runner.rubric]` limits to graders from now on: an agent's own calls would be beyond the
    /// limits.
    pub fn reserve_judges(&self, config: &Config) {
        let rubric = config.runner.rubric.iter();
        self.proxy.reserve_for_graders(rubric.flat_map(RubricOptions::limited_judges).map(str::to_owned));
    }

    /// Lets nothing in any more and finishes what is inside, for a while; then cuts it short, so that its clients are told
    /// and its record is written, and stops. `at_once` ends the waiting.
    pub async fn stop(mut self, at_once: impl Future<Output = ()>) -> Result<()> {
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
        self.upkeep.abort();
        if let Some(follower) = self.follower.take() {
            follower.stop().await;
        }
        self.store.stop_waiting();
        tokio::select! {
            ended = self.end() => ended,
            () = at_once => {
                self.task.abort();
                Ok(())
            }
        }
    }

    /// Lets nothing in, and waits for what is inside and for its record.
    async fn end(&mut self) -> Result<()> {
        let mut in_order = true;
        if timeout(self.patience, self.gate.drain()).await.is_err() {
            self.proxy.cut_short();
            if timeout(LAST_WORDS, self.gate.drain()).await.is_err() {
                tracing::warn!("some requests would not end, and are given up");
                in_order = false;
            }
        }
        // What nobody listens to any more is recorded all the same.
        if timeout(LAST_WORDS, self.proxy.settled()).await.is_err() {
            tracing::warn!("some calls would not end, and what they sampled is lost");
            in_order = false;
        }
        if let Some(export) = self.export.take() {
            export.stop().await;
        }
        self.gate.close();
        let ended = match timeout(LAST_WORDS, &mut self.task).await {
            Ok(ended) => ended.context("the server broke"),
            // Clients that take nothing in.
            Err(_) => {
                self.task.abort();
                Ok(())
            }
        };
        if in_order && ended.is_ok() {
            self.note_end().await;
        }
        ended
    }

    /// Notes that it is known of every answer whether its client has it.
    async fn note_end(&self) {
        let noted = timeout(LAST_WORDS, self.store.servers().end()).await;
        let error = match noted {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store does not answer".to_owned(),
        };
        tracing::warn!(error, "this server is taken for one that was killed: its last answers may be given again");
    }

    /// Ends when the server does, which it should not.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(()) => anyhow::anyhow!("the server stopped"),
            Err(error) => anyhow::Error::new(error).context("the server broke"),
        }
    }
}

/// A server's address and what its config says of connections: all that may be wrong with it before it has a store.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    admin: Option<AdminKey>,
    origins: WebOrigins,
    connection_limits: ConnectionLimits,
    patience: Duration,
    watchdog_interval: Option<Duration>,
    around: Option<Box<dyn FnOnce(Router) -> Router + Send>>,
    store_routes: Vec<StoreRoutes>,
}

/// Routes over a server's store, for who has the admin key.
pub type StoreRoutes = fn(&Store) -> Router;

impl Listening {
    /// Takes the address. Whoever connects waits until the server has started.
    ///
    /// # Errors
    /// For an address that cannot be had, or that needs a better admin key, and for values that make no sense.
    pub async fn begin(config: &ServerConfig, admin: Option<AdminKey>) -> Result<Self> {
        let watchdog_interval = watchdog_interval(config.watchdog_interval)?;
        let connection_limits = ConnectionLimits {
            head_time: seconds("server.header_seconds", config.header_seconds)?,
            head_bytes: config.header_limit_bytes,
            body_time: seconds("server.body_seconds", config.body_seconds)?,
            write_time: seconds("server.write_seconds", config.write_seconds)?,
        };
        let patience = seconds("server.shutdown_seconds", config.shutdown_seconds)?;
        let listener = listen(&config.listen, admin.as_ref()).await?;
        let address = listener.local_addr().context("the listening socket has no address")?;
        let origins = WebOrigins::new(config, address)?;
        let (around, store_routes) = (None, Vec::new());
        Ok(Self {
            listener,
            address,
            admin,
            origins,
            connection_limits,
            patience,
            watchdog_interval,
            around,
            store_routes,
        })
    }

    /// Where, as `http://ADDRESS:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers what reads, and nothing else, under these routes alone, until it is dropped.
    pub async fn serve_reads(self, routes: Router) {
        let Self { listener, origins, connection_limits, .. } = self;
        let origins = Arc::new(origins);
        let only_reads = from_fn(move |request: Request, next: Next| {
            let origins = Arc::clone(&origins);
            async move {
                let (parts, body) = request.into_parts();
                match origins.check(&parts) {
                    Err(refused) => fulgurite_api::refusal(&parts, refused),
                    Ok(_) if !parts.method.is_safe() => StatusCode::METHOD_NOT_ALLOWED.into_response(),
                    Ok(_) => next.run(Request::from_parts(parts, body)).await,
                }
            }
        });
        connections::serve(listener, routes.layer(only_reads), connection_limits, Gate::new()).await;
    }

    /// Answers these routes too, over the store of the server that is started here.
    pub fn with(mut self, routes: StoreRoutes) -> Self {
        self.store_routes.push(routes);
        self
    }

    /// Puts something around all routes, which sees every request before they do.
    pub fn within(mut self, around: impl FnOnce(Router) -> Router + Send + 'static) -> Self {
        self.around = Some(Box::new(around));
        self
    }
}

/// The answer to a request for what there is not.
async fn unknown_route(request: Request) -> Response {
    match fulgurite_api::is_grpc(request.version(), request.headers()) {
        true => fulgurite_api::unknown_method(request.uri().path()),
        false => fulgurite_proxy::unknown_route(request).await,
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

/// The time between the watchdog's looks; none if it looks before calls.
fn watchdog_interval(interval: f64) -> Result<Option<Duration>> {
    match interval {
        0.0 => Ok(None),
        interval => {
            let time = seconds("server.watchdog_interval", interval);
            time.map(Some).map_err(|error| anyhow!("{error} (0 looks before each call)"))
        }
    }
}

fn conversation_gap(gap: f64) -> Result<Duration> {
    match gap {
        0.0 => Ok(Duration::ZERO),
        gap => {
            let time = seconds("proxy.conversation_gap_seconds", gap);
            time.map_err(|error| anyhow!("{error} (0 recognises no conversation by its content)"))
        }
    }
}

/// Fewest characters of an admin key that whoever reaches the machine may guess at.
const SHORTEST_KEY: usize = 32;

/// Refuses a key that is easy to guess, where others may try.
fn check_key(address: &str, key: &AdminKey) -> Result<()> {
    match key.expose().len() {
        SHORTEST_KEY.. => Ok(()),
        length => bail!(
            "server.listen is {address}: beyond loopback the admin key must have at least {SHORTEST_KEY} characters, and it \
             has {length}; `openssl rand -hex 32` makes one"
        ),
    }
}

async fn listen(address: &str, admin: Option<&AdminKey>) -> Result<TcpListener> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} (server.listen)"))?;
    let local = listener.local_addr().context("the listening socket has no address")?;
    match admin {
        _ if local.ip().is_loopback() => {}
        Some(key) => check_key(address, key)?,
        None => bail!(
            "server.listen is {address}: without an admin key the server listens on loopback addresses only \
             (FULGURITE_ADMIN_KEY, server.admin_key_env or server.admin_key_file sets one)"
        ),
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
