//! The models that `serve` serves: in this process, at remote hosts, or by passing their calls on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_backends::{
    BackendError, Learner, LlamaCppSampler, PrimeRlLearner, PrimeRlOptions, PublishingLearner, RemoteOptions,
    ReplicaOptions, Replicas, Sampler, SglangSampler, SharedGpu, TorchHead, TorchLearner, TorchModel, TorchOptions,
    Upstream, UpstreamDialect, UpstreamOptions, VllmSampler, WeightsReceiver, WeightsSource,
};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::models::{Backend, LearnerKind, ModelEntry};
use fulgurite_config::redaction::public_part;
use fulgurite_config::sampling_limits::sampling_limits;
use fulgurite_engine::{Engine, EngineOptions, ModelHead};
use fulgurite_proxy::{SampledModel, ServedModel, UpstreamModel};
use fulgurite_renderers::{Renderer, recommended_renderers};
use fulgurite_tinker::server::TinkerBase;
use fulgurite_tinker::wire::LoraConfig;
use fulgurite_tinker::{
    Patience, TinkerLearner, TinkerLearnerOptions, TinkerOptions, TinkerSampler, TinkerSamplerOptions, TinkerService,
};
use serde_json::Value;

use crate::models::loaded_model::LoadedModel;
use crate::models::model_directory::{holds_weights, model_directory};
use crate::notices::Notices;

/// Rank of the adapters that are trained at a service unless told otherwise.
const SERVICE_RANK: u32 = 32;

/// A model that is served.
pub struct OpenModel {
    /// As agents know it.
    pub served: ServedModel,
    /// Where it is sampled if not in this process, for people.
    pub remote: Option<String>,
    /// As clients of the Tinker API have it, if it is in this process.
    pub tinker: Option<TinkerBase>,
    /// Where its own weights are, or at least its tokenizer, if it is sampled token by token.
    pub directory: Option<PathBuf>,
}

impl OpenModel {
    /// Opens what `entry` says, its path seen from `directory`; a GGUF file is converted first. Remote hosts are looked at
    /// when they are first needed, so that they may be down.
    pub fn open(entry: &ModelEntry, directory: &Path, config: &Config, notices: &dyn Notices) -> Result<Self> {
        let path = || {
            let path = model_directory(&directory.join(&entry.path), notices);
            path.with_context(|| format!("model `{}`", entry.name))
        };
        if entry.backend == Backend::Embedded {
            let directory = path()?;
            let loaded = LoadedModel::open(&entry.name, &directory, entry.renderer(), config.engine.options())?;
            let (tinker, directory) = (Some(loaded.tinker_base()?), Some(directory));
            return Ok(Self { served: ServedModel::Sampled(loaded.served), remote: None, tinker, directory });
        }
        let place = entry.urls.iter().map(|url| public_part(url)).collect::<Vec<_>>().join(", ");
        if let Some(dialect) = entry.backend.upstream_dialect() {
            let upstream = upstream(entry, dialect).with_context(|| format!("model `{}`", entry.name))?;
            let remote = format!("calls are passed on to {place} ({})", dialect.name());
            return Ok(Self {
                served: ServedModel::Upstream(upstream),
                remote: Some(remote),
                tinker: None,
                directory: None,
            });
        }
        let directory = path()?;
        let served = ServedModel::Sampled(remote_model(entry, &directory, config)?);
        let remote = format!("{} at {place}, connected to when it is first called", entry.backend.name());
        Ok(Self { served, remote: Some(remote), tinker: None, directory: Some(directory) })
    }
}

/// A model that is sampled at remote hosts, its tokenizer and template in `path`.
fn remote_model(entry: &ModelEntry, path: &Path, config: &Config) -> Result<SampledModel> {
    let model = || format!("model `{}`", entry.name);
    let renderer = fulgurite_renderers::open_renderer(path, entry.renderer()).with_context(model)?;
    if let Some(warning) = unusual_renderer(entry) {
        tracing::warn!("{warning}");
    }
    let limits = Limits::read(path, renderer.tokenizer().vocabulary_size()).with_context(model)?;
    let base = holds_weights(path).then_some(path);
    let sampler = Arc::new(remote(entry, &limits, silence_limit(config)?, base).with_context(model)?);
    Ok(SampledModel { name: entry.name.clone(), renderer, sampler })
}

/// What is odd about a renderer that was named for a model of the hub that others write otherwise: it samples worse than it
/// can, and nothing says why. The directory's own template suits always.
fn unusual_renderer(entry: &ModelEntry) -> Option<String> {
    let base = base_model(entry);
    let usual = recommended_renderers(&base);
    let named = entry.renderer.as_str();
    let suits = usual.is_empty() || usual.contains(&named) || ["auto", "template"].contains(&named);
    (!suits).then(|| {
        let usual = usual.join("`, `");
        format!("model `{}`: {base} is written by `{usual}`, not by `{named}` ([[models]] renderer)", entry.name)
    })
}

/// A model that this process trains, here or at a service, sampled here or at remote hosts.
pub struct TrainedModel {
    /// As agents know it.
    pub served: SampledModel,
    /// What trains it, and puts new weights behind whoever samples.
    pub learner: Arc<dyn Learner>,
    /// The GPU that its hosts and its learner have by turns, if they do.
    pub gpu: Option<Arc<SharedGpu>>,
    /// Works as long as it is kept.
    _engine: Option<Engine>,
}

impl TrainedModel {
    /// Opens the weights in `path`, to train them or an adapter over them. What is sampled at remote hosts is handed to them
    /// through directories in `published`. A service that trains has its own weights. Adapters begin by the run's seed.
    pub fn open(entry: &ModelEntry, path: &Path, published: PathBuf, loaded: &LoadedConfig) -> Result<Self> {
        let config = &loaded.config;
        refuse_untrained_score(entry, config)?;
        let options = trained_options(config);
        if entry.learner == LearnerKind::Torch {
            let (learner, source) = torch_learner(entry, path, loaded)?;
            let (served, engine) = match entry.backend {
                Backend::Embedded => {
                    let LoadedModel { served, engine } =
                        LoadedModel::open(&entry.name, path, entry.renderer(), options)?;
                    (served, Some(engine))
                }
                _ => (remote_model(entry, path, config)?, None),
            };
            if config.torch.shares_gpu {
                let gpu = SharedGpu::new(served.sampler.clone(), learner);
                let learner = Arc::new(PublishingLearner::new(gpu.learner(), gpu.receiver(), published, source));
                return Ok(Self { served, learner, gpu: Some(gpu), _engine: engine });
            }
            let learner = Arc::new(PublishingLearner::new(learner, served.sampler.clone(), published, source));
            return Ok(Self { served, learner, gpu: None, _engine: engine });
        }
        if entry.learner == LearnerKind::PrimeRl {
            let served = remote_model(entry, path, config)?;
            let (learner, source) = prime_rl_learner(entry, loaded)?;
            let learner = Arc::new(PublishingLearner::new(learner, served.sampler.clone(), published, source));
            return Ok(Self { served, learner, gpu: None, _engine: None });
        }
        if entry.backend == Backend::Tinker {
            let served = remote_model(entry, path, config)?;
            let learner = Arc::new(tinker_learner(entry, config.run.seed, served.sampler.clone())?);
            return Ok(Self { served, learner, gpu: None, _engine: None });
        }
        let LoadedModel { mut served, engine } = LoadedModel::open(&entry.name, path, entry.renderer(), options)?;
        let (mut learner, source) = learner_of(&engine, entry, config)?;
        if entry.backend != Backend::Embedded {
            let limits = Limits { vocabulary_size: engine.config().vocab_size, context_length: None };
            let hosts = remote(entry, &limits, silence_limit(config)?, Some(path));
            let hosts = hosts.with_context(|| format!("model `{}`", entry.name))?;
            served.sampler = Arc::new(hosts);
            learner = Arc::new(PublishingLearner::new(learner, served.sampler.clone(), published, source));
        }
        Ok(Self { served, learner, gpu: None, _engine: Some(engine) })
    }
}

/// What the engine of a model that is trained is opened with.
fn trained_options(config: &Config) -> EngineOptions {
    EngineOptions { head: config.trainer.trains_score().then_some(ModelHead::Score), ..config.engine.options() }
}

/// Refuses to train a score where nobody can.
fn refuse_untrained_score(entry: &ModelEntry, config: &Config) -> Result<()> {
    if !config.trainer.trains_score() {
        return Ok(());
    }
    let key = "[trainer] preference.head = \"score\"";
    if entry.backend != Backend::Embedded {
        bail!(
            "{key}: the backend of model `{}` is {}, and a score is trained in this process; set backend = \"embedded\"",
            entry.name,
            entry.backend.name()
        );
    }
    if entry.lora_rank.is_some_and(|rank| rank > 0) {
        bail!("{key}: a score is trained with all weights of its model; leave lora_rank of model `{}` out", entry.name);
    }
    Ok(())
}

/// A model that tells how likely what others sampled is.
pub struct ScoringModel {
    /// Its tokenizer.
    pub renderer: Arc<dyn Renderer>,
    /// What tells it.
    pub sampler: Arc<dyn Sampler>,
    /// Works as long as it is kept.
    engine: Option<Engine>,
}

impl ScoringModel {
    /// What has scores for logprobs, if the model's head is a score.
    pub fn scores(&self) -> Option<Arc<dyn Learner>> {
        let engine = self.engine.as_ref().filter(|engine| engine.config().head == ModelHead::Score)?;
        Some(engine.learner())
    }

    /// Opens the model of `entry` in this process, or its hosts, with the tokenizer in `path`.
    pub fn open(entry: &ModelEntry, path: &Path, config: &Config, notices: &dyn Notices) -> Result<Self> {
        let path = model_directory(path, notices).with_context(|| format!("model `{}`", entry.name))?;
        if entry.backend == Backend::Embedded {
            let LoadedModel { served, engine } =
                LoadedModel::open(&entry.name, &path, entry.renderer(), config.engine.options())?;
            return Ok(Self { renderer: served.renderer, sampler: served.sampler, engine: Some(engine) });
        }
        let served = remote_model(entry, &path, config)?;
        Ok(Self { renderer: served.renderer, sampler: served.sampler, engine: None })
    }
}

/// A model that another server samples for its agents, and that is trained here or at a service.
pub struct ServersModel {
    /// What trains it, and gives new weights to the server.
    pub learner: Arc<dyn Learner>,
    /// Its tokenizer and template.
    pub renderer: Arc<dyn Renderer>,
    /// Works as long as it is kept.
    _engine: Option<Engine>,
}

impl ServersModel {
    /// As [`TrainedModel::open`], but new weights go to `receiver`: by the name that the service keeps them under, or as
    /// directories in `published`, which the server must see under the same path.
    pub fn open(
        entry: &ModelEntry,
        path: &Path,
        published: PathBuf,
        loaded: &LoadedConfig,
        receiver: impl WeightsReceiver,
    ) -> Result<Self> {
        let config = &loaded.config;
        let model = || format!("model `{}`", entry.name);
        if entry.backend == Backend::Tinker {
            let renderer = fulgurite_renderers::open_renderer(path, entry.renderer()).with_context(model)?;
            let learner = Arc::new(tinker_learner(entry, config.run.seed, receiver).with_context(model)?);
            return Ok(Self { learner, renderer, _engine: None });
        }
        if entry.learner == LearnerKind::Torch {
            if config.torch.shares_gpu {
                bail!(
                    "[torch] shares_gpu = true: the server of another process does not hold its calls for a pass; train without \
                       --server, or give the learner a GPU of its own"
                );
            }
            let renderer = fulgurite_renderers::open_renderer(path, entry.renderer()).with_context(model)?;
            let (learner, source) = torch_learner(entry, path, loaded)?;
            let learner = Arc::new(PublishingLearner::new(learner, receiver, published, source));
            return Ok(Self { learner, renderer, _engine: None });
        }
        if entry.learner == LearnerKind::PrimeRl {
            let renderer = fulgurite_renderers::open_renderer(path, entry.renderer()).with_context(model)?;
            let (learner, source) = prime_rl_learner(entry, loaded)?;
            let learner = Arc::new(PublishingLearner::new(learner, receiver, published, source));
            return Ok(Self { learner, renderer, _engine: None });
        }
        let LoadedModel { served, engine } =
            LoadedModel::open(&entry.name, path, entry.renderer(), config.engine.options())?;
        let (learner, source) = learner_of(&engine, entry, config)?;
        Ok(Self {
            learner: Arc::new(PublishingLearner::new(learner, receiver, published, source)),
            renderer: served.renderer,
            _engine: Some(engine),
        })
    }
}

/// What trains at a service, which has the weights.
fn tinker_learner(entry: &ModelEntry, seed: u64, receiver: impl WeightsReceiver) -> Result<TinkerLearner> {
    Ok(TinkerLearner::new(tinker_service(entry)?, tinker_learner_options(entry, seed), receiver))
}

/// What a service is asked to train; the adapters beside its weights begin by the run's seed.
pub(super) fn tinker_learner_options(entry: &ModelEntry, seed: u64) -> TinkerLearnerOptions {
    // Services take seeds for signed numbers of 32 bits.
    let seed = Some(seed & i32::MAX as u64);
    let lora_config = LoraConfig {
        rank: entry.lora_rank.unwrap_or(SERVICE_RANK),
        seed,
        train_unembed: true,
        train_mlp: true,
        train_attn: true,
    };
    TinkerLearnerOptions { base_model: base_model(entry), lora_config }
}

/// What a directory of saved weights is for who is to sample from them.
type SavedAs = fn(PathBuf) -> WeightsSource;

/// What trains a model of this process, all of it or an adapter beside it, and what the weights are that it saves.
fn learner_of(engine: &Engine, entry: &ModelEntry, config: &Config) -> Result<(Arc<dyn Learner>, SavedAs)> {
    let model = || format!("model `{}`", entry.name);
    match entry.lora(config.run.seed) {
        Some(lora) => Ok((engine.lora_learner(&lora).with_context(model)?, WeightsSource::Adapter)),
        None => {
            engine.check_training_memory().with_context(model)?;
            Ok((engine.learner(), WeightsSource::Model))
        }
    }
}

/// What trains the model in `path` in PyTorch, and what the weights are that it saves.
fn torch_learner(entry: &ModelEntry, path: &Path, loaded: &LoadedConfig) -> Result<(Arc<TorchLearner>, SavedAs)> {
    let options = torch_options(loaded);
    let head = if loaded.config.trainer.trains_score() { TorchHead::Score } else { TorchHead::AsWritten };
    let model = TorchModel { head, ..entry.torch_model(path, loaded.config.run.seed) };
    let source: SavedAs = if model.adapter.is_some() { WeightsSource::Adapter } else { WeightsSource::Model };
    let learner = TorchLearner::start(&options, &model).with_context(|| format!("model `{}`", entry.name))?;
    Ok((Arc::new(learner), source))
}

/// prime-rl's trainer, and what the weights are that it writes.
fn prime_rl_learner(entry: &ModelEntry, loaded: &LoadedConfig) -> Result<(Arc<PrimeRlLearner>, SavedAs)> {
    let options = prime_rl_options(loaded);
    let rollouts = loaded.config.trainer.rollouts();
    let temperature = rollouts.and_then(|rollouts| rollouts.sampling_parameters.get("temperature")?.as_f64());
    let learner = PrimeRlLearner::open(options, temperature.unwrap_or(1.0) as f32);
    let learner = learner.with_context(|| format!("model `{}`", entry.name))?;
    let source: SavedAs = if entry.lora_rank.unwrap_or(0) > 0 { WeightsSource::Adapter } else { WeightsSource::Model };
    Ok((Arc::new(learner), source))
}

fn prime_rl_options(loaded: &LoadedConfig) -> PrimeRlOptions {
    let options = &loaded.config.prime_rl;
    PrimeRlOptions { directory: loaded.resolve(&options.directory), ..options.clone() }
}

/// Refuses a trainer that keeps steps of another run, where the run that begins has published nothing yet.
///
/// # Errors
/// If the trainer has such steps, or its directory cannot be read.
pub fn refuse_used_trainer(entry: &ModelEntry, loaded: &LoadedConfig, published: &Path) -> Result<()> {
    if entry.learner == LearnerKind::PrimeRl && !published.exists() {
        PrimeRlLearner::require_unused(&prime_rl_options(loaded))?;
    }
    Ok(())
}

fn torch_options(loaded: &LoadedConfig) -> TorchOptions {
    let options = &loaded.config.torch;
    // A bare name is looked for on the PATH.
    TorchOptions { python: loaded.interpreter(&options.python), ..options.clone() }
}

/// Looks for the package of a learner in another process, before a base model is made for it, which takes minutes.
///
/// # Errors
/// The message names the command that installs it.
pub fn check_learner(entry: &ModelEntry, loaded: &LoadedConfig) -> Result<()> {
    if entry.learner != LearnerKind::Torch {
        return Ok(());
    }
    TorchLearner::find_package(&torch_options(loaded)).with_context(|| format!("model `{}`", entry.name))
}

/// How long a remote host may be silent in the middle of a request.
fn silence_limit(config: &Config) -> Result<Duration> {
    Ok(sampling_limits(&config.proxy)?.host_silence())
}

/// The hosts of a remote model as one. They were started with the files in `base`, if those are here.
fn remote(entry: &ModelEntry, limits: &Limits, silence_limit: Duration, base: Option<&Path>) -> Result<Replicas> {
    let api_key = api_key(entry)?;
    let mut hosts = Vec::new();
    for url in &entry.urls {
        let options = RemoteOptions {
            url: url.clone(),
            model: entry.name.clone(),
            vocabulary_size: limits.vocabulary_size,
            api_key: api_key.clone(),
            silence_limit,
            changeover: entry.changeover,
        };
        hosts.push((url.clone(), sampler(entry, &options, limits, base)?));
    }
    Ok(Replicas::new(hosts, &replica_options(entry)))
}

/// The hosts to which a model's calls are passed on.
fn upstream(entry: &ModelEntry, dialect: UpstreamDialect) -> Result<UpstreamModel> {
    let options = UpstreamOptions {
        urls: entry.urls.clone(),
        dialect,
        api_key: api_key(entry)?,
        key_header: entry.key_header,
        replicas: replica_options(entry),
    };
    Ok(UpstreamModel {
        name: entry.name.clone(),
        upstream_name: entry.upstream_model.clone().unwrap_or_else(|| entry.name.clone()),
        upstream: Arc::new(Upstream::new(&options)?),
    })
}

fn replica_options(entry: &ModelEntry) -> ReplicaOptions {
    let (model, max_concurrency) = (entry.name.clone(), entry.max_concurrency);
    ReplicaOptions { model, max_concurrency, ..ReplicaOptions::default() }
}

fn api_key(entry: &ModelEntry) -> Result<Option<String>> {
    let key = |variable: &String| {
        std::env::var(variable).map_err(|error| anyhow!("the environment variable {variable} (api_key_env): {error}"))
    };
    entry.api_key_env.as_ref().map(key).transpose()
}

fn sampler(
    entry: &ModelEntry,
    options: &RemoteOptions,
    limits: &Limits,
    base: Option<&Path>,
) -> Result<Arc<dyn Sampler>> {
    let base = base.map(Path::to_owned);
    Ok(match entry.backend {
        Backend::Vllm => Arc::new(VllmSampler::new(options)?.with_base(base)),
        Backend::Sglang => Arc::new(SglangSampler::new(options)?.with_base(base)),
        Backend::LlamaCpp => Arc::new(LlamaCppSampler::new(options)?),
        Backend::Tinker => {
            let Limits { vocabulary_size, context_length } = *limits;
            let options = TinkerSamplerOptions { base_model: base_model(entry), vocabulary_size, context_length };
            Arc::new(TinkerSampler::new(tinker_service(entry)?, options))
        }
        Backend::Embedded | Backend::OpenAi | Backend::Anthropic => {
            let message = format!("{} is no host that samples token by token", entry.backend.name());
            return Err(BackendError::Configuration { message }.into());
        }
    })
}

/// The service of a model, with a session of its own there.
fn tinker_service(entry: &ModelEntry) -> Result<Arc<TinkerService>> {
    Ok(Arc::new(TinkerService::new(&tinker_service_options(entry, Patience::default())?)?))
}

/// Where the service of a model is, and how long it is waited for.
pub(super) fn tinker_service_options(entry: &ModelEntry, patience: Patience) -> Result<TinkerOptions> {
    let url = entry.urls.first().cloned().unwrap_or_default();
    Ok(TinkerOptions { url, api_key: api_key(entry)?, patience })
}

fn base_model(entry: &ModelEntry) -> String {
    entry.base_model.clone().unwrap_or_else(|| entry.name.clone())
}

/// Tokens that a sequence of the model in this directory may have, where it says so.
pub fn context_length(directory: &Path) -> Result<Option<usize>> {
    Ok(Limits::read(directory, 0)?.context_length)
}

/// What a model can take, as far as its directory tells.
#[derive(Debug, PartialEq)]
struct Limits {
    /// Ids that it may sample are below this.
    vocabulary_size: usize,
    /// Tokens of prompt and answer together.
    context_length: Option<usize>,
}

impl Limits {
    /// The embedding has often more rows than the tokenizer has tokens.
    fn read(directory: &Path, of_tokenizer: usize) -> Result<Self> {
        let path = directory.join("config.json");
        if !path.exists() {
            return Ok(Self { vocabulary_size: of_tokenizer, context_length: None });
        }
        let unreadable = || format!("cannot read {}", path.display());
        let text = fulgurite_engine::read_model_config(&path)?;
        let config: Value = serde_json::from_str(&text).with_context(unreadable)?;
        let number = |name: &str| {
            let found = [&config[name], &config["text_config"][name]].into_iter().find_map(Value::as_u64);
            found.map(|number| number as usize)
        };
        let vocabulary_size = number("vocab_size").map_or(of_tokenizer, |number| of_tokenizer.max(number));
        Ok(Self { vocabulary_size, context_length: number("max_position_embeddings") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_config::declarations::ProxyConfig;

    #[test]
    fn a_host_may_be_silent_for_as_long_as_the_config_waits_for_it() {
        let limit = |first_token_seconds, silence_seconds| {
            let proxy = ProxyConfig { first_token_seconds, silence_seconds, ..ProxyConfig::default() };
            silence_limit(&Config { proxy, ..Config::default() }).unwrap().as_secs_f64()
        };
        assert!(limit(1800.0, 1.0) > 1800.0 && limit(1.0, 1800.0) > 1800.0);
        assert_eq!(limit(1.0, 1.0), 600.0);
        assert!(limit(1e18, 1.0) > 1e9, "and no clock overflows");
    }

    #[test]
    fn a_renderer_that_nobody_uses_for_a_model_is_told_of() {
        let warning = |base: &str, renderer: &str| {
            let flag = format!("m=tinker:http://x,path=p,base_model={base},renderer={renderer}");
            unusual_renderer(&fulgurite_config::models::parse_model(&flag).unwrap())
        };
        let expected = "model `m`: Qwen/Qwen3-8B is written by `qwen3`, `qwen3_disable_thinking`, not by `chatml` \
                    ([[models]] renderer)";
        assert_eq!(warning("Qwen/Qwen3-8B", "chatml").as_deref(), Some(expected));
        for (base, renderer) in [("Qwen/Qwen3-8B", "qwen3"), ("Qwen/Qwen3-8B", "auto"), ("my/model", "chatml")] {
            assert_eq!(warning(base, renderer), None, "{base}");
        }
    }

    #[test]
    fn padding_rows_of_an_embedding_are_tokens_too() {
        let directory = tempfile::tempdir().unwrap();
        let size = |of_tokenizer| match Limits::read(directory.path(), of_tokenizer) {
            Ok(limits) => Ok((limits.vocabulary_size, limits.context_length)),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(size(291), Ok((291, None)));
        for (config, expected) in [
            ("{\"vocab_size\": 320}", (320, None)),
            ("{\"vocab_size\": 280, \"max_position_embeddings\": 64}", (291, Some(64))),
            ("{\"text_config\": {\"vocab_size\": 300, \"max_position_embeddings\": 32}}", (300, Some(32))),
            ("{}", (291, None)),
        ] {
            std::fs::write(directory.path().join("config.json"), config).unwrap();
            assert_eq!(size(291), Ok(expected), "{config}");
        }
        std::fs::write(directory.path().join("config.json"), "{").unwrap();
        assert!(size(291).is_err_and(|error| error.starts_with("cannot read")));
    }
}
