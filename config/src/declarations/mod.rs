//! The config file: one TOML file, defaults for every key, unknown keys refused with the nearest known name.

mod base;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use fulgurite_backends::{PrimeRlOptions, TorchOptions};
use fulgurite_engine::{EngineOptions, GrammarLimits};
use fulgurite_proxy::{AuxiliaryRule, Budget, ProxyOptions, UnknownFields, WithoutNewWeights};
use fulgurite_renderers::ContinuationPolicy;
use fulgurite_tinker::server::{RepeatedSeeds, StableReinforce};
use fulgurite_trainer::{TaskSource, TrainerOptions};
use serde::{Deserialize, Serialize, Serializer};

pub use base::{BaseConfig, Shape};

use crate::engine_device::EngineDevice;
use crate::models::ModelEntry;
use crate::overrides::{self, Override};
use crate::redaction::public_part;
use crate::runner::RunnerConfig;
use crate::text::parse;
use crate::trackers::TrackersConfig;

/// Everything that a config file may say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP server.
    pub server: ServerConfig,
    /// How model calls are answered.
    pub proxy: ProxyConfig,
    /// The record.
    pub store: StoreConfig,
    /// The models that are sampled in this process.
    pub engine: EngineConfig,
    /// Models that are trained in PyTorch.
    pub torch: TorchOptions,
    /// Models that prime-rl trains.
    pub prime_rl: PrimeRlOptions,
    /// What is told of calls elsewhere.
    pub telemetry: TelemetryConfig,
    /// The Tinker API over embedded models.
    pub tinker_server: TinkerServerConfig,
    /// The models that agents can ask for.
    pub models: Vec<ModelEntry>,
    /// A training run.
    pub run: RunConfig,
    /// How a missing model directory is made.
    pub base: Option<BaseConfig>,
    /// What tokens cost, for `fulgurite runs`.
    pub prices: Option<PricesConfig>,
    /// Programs of others that are told of a run's metrics.
    pub trackers: TrackersConfig,
    /// What the policy is trained and scored on.
    pub tasks: Option<TasksConfig>,
    /// What runs the agent.
    pub runner: RunnerConfig,
    /// How the policy is trained.
    pub trainer: TrainerOptions,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Address and port; 4747 is what Agent-lightning's clients expect, 0 takes a free one.
    pub listen: String,
    /// Further names that the server goes by, without ports. On loopback it takes these, `localhost`, loopback addresses and
    /// the host of `listen`; on other addresses any name, unless some are given here.
    pub hosts: Vec<String>,
    /// Origins of other web pages that may ask the server, such as `http://localhost:3000`.
    pub cors_origins: Vec<String>,
    /// Name of the environment variable that holds the admin key; `FULGURITE_ADMIN_KEY` if neither this nor a file is named.
    /// With an admin key set, every request needs a key.
    pub admin_key_env: Option<String>,
    /// File that holds the admin key, in place of a variable.
    pub admin_key_file: Option<PathBuf>,
    /// Greatest request body, in bytes.
    pub body_limit_bytes: usize,
    /// Greatest head of a request, in bytes.
    pub header_limit_bytes: usize,
    /// Seconds for a request's head, and for a connection to say nothing.
    pub header_seconds: f64,
    /// Seconds for a request's body.
    pub body_seconds: f64,
    /// Seconds for which a client may take in nothing of what it is sent, until it counts as gone.
    pub write_seconds: f64,
    /// Seconds that a server which is told to end gives to what it has begun; what takes longer is cut short.
    pub shutdown_seconds: f64,
    /// Seconds between looks for attempts that are out of time or silent; 0 looks before each call of Agent-lightning's
    /// API instead.
    pub watchdog_interval: f64,
    /// Whether a line is logged of each request, without contents and keys.
    pub access_log: bool,
    /// What becomes of a model's calls while its newest weights cannot be loaded: `serve` samples them from those that it
    /// has, `refuse` answers 503.
    pub without_new_weights: WithoutNewWeights,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4747".to_owned(),
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            admin_key_env: None,
            admin_key_file: None,
            body_limit_bytes: 32 * 1024 * 1024,
            header_limit_bytes: 64 * 1024,
            header_seconds: 60.0,
            body_seconds: 120.0,
            write_seconds: 60.0,
            shutdown_seconds: 30.0,
            watchdog_interval: 10.0,
            access_log: false,
            without_new_weights: WithoutNewWeights::default(),
        }
    }
}

/// `[proxy]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxyConfig {
    /// Whether a call below `/rollout/{id}/attempt/{id}` is answered with token ids and logprobs though it did not ask
    /// for them, so that a tracer in the agent records them.
    pub token_ids_on_attributed_path: bool,
    /// Temperature of calls below `/proxy/.../mode/train`, whatever the agent asks for.
    pub train_temperature: f32,
    /// Temperature of calls below `/proxy/.../mode/val`, whatever the agent asks for.
    pub val_temperature: f32,
    /// How turns that were sampled appear in later prompts of their conversation: `exact`, as they were sampled, or
    /// `template_faithful`, as the model's template writes them, which often drops earlier reasoning.
    pub continuation: ContinuationPolicy,
    /// Memory for the conversations of running attempts, about, in bytes; those that do not fit are read from the store
    /// again.
    pub conversation_memory_bytes: usize,
    /// Seconds after its latest call for which a conversation is recognised by its content: a call that names no rollout and
    /// no session, and whose messages go on from an answer that the same key had of the same model, joins that answer's
    /// rollout. 0: every such call is a rollout of its own.
    pub conversation_gap_seconds: f64,
    /// Which calls are recognised as made beside the task, such as titles: regular expressions for the text of the
    /// system's messages and for the user's last one. They are recorded, and not trained.
    pub auxiliary_rules: Vec<AuxiliaryRule>,
    /// What the model calls of one attempt may take together; a rollout may have less (`fulgurite_budget` in its metadata).
    pub budget: Budget,
    /// Seconds for a model's host to give an answer's first token, its turn to come included.
    pub first_token_seconds: f64,
    /// Seconds from each token to the next.
    pub silence_seconds: f64,
    /// Seconds for a whole answer.
    pub call_seconds: f64,
    /// Seconds for which a call is held while its model's host does not answer; an answer that the host broke off goes on
    /// where it was, on any host of the model. 0: such calls fail at once.
    pub host_patience_seconds: f64,
    /// Seconds after which a stream that has nothing to say gives a sign of life.
    pub keep_alive_seconds: f64,
    /// Requests of more than 64 KiB that are read, rendered and tokenised at the same time, beside all smaller ones; half
    /// of the processors unless told otherwise. As many bodies for the store are read beside them.
    pub large_requests_at_once: usize,
    /// Requests of more than 64 KiB of one attempt or session that may wait for that. Whose turn it is goes round among
    /// attempts and sessions; more than these are refused with 429.
    pub large_requests_waiting: usize,
    /// Bytes of the schemas of an answer and of the tools that it may call instead, where it is to keep to them.
    pub schema_bytes: usize,
    /// What is done with fields of requests that are not known here: `ignore`, and name them in the answer's header
    /// `x-fulgurite-ignored`, or `refuse` the request, which shows an agent's tests what it sends in vain. Fields that would
    /// change an answer and are not honoured are always refused.
    pub unknown_fields: UnknownFields,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        let ProxyOptions {
            token_ids_on_attributed_path,
            train_temperature,
            val_temperature,
            continuation,
            conversation_memory_bytes,
            conversation_gap,
            auxiliary_rules,
            budget,
            sampling_limits,
            keep_alive,
            large_requests,
            schema_bytes,
            unknown_fields,
            ..
        } = ProxyOptions::default();
        Self {
            token_ids_on_attributed_path,
            train_temperature,
            val_temperature,
            continuation,
            conversation_memory_bytes,
            conversation_gap_seconds: conversation_gap.as_secs_f64(),
            auxiliary_rules,
            budget,
            first_token_seconds: sampling_limits.first_token.as_secs_f64(),
            silence_seconds: sampling_limits.silence.as_secs_f64(),
            call_seconds: sampling_limits.whole.as_secs_f64(),
            host_patience_seconds: sampling_limits.host_patience.as_secs_f64(),
            keep_alive_seconds: keep_alive.as_secs_f64(),
            large_requests_at_once: large_requests.at_once,
            large_requests_waiting: large_requests.waiting,
            schema_bytes,
            unknown_fields,
        }
    }
}

/// The store of a server, and of queries, that are told of no other.
pub const DEFAULT_STORE: &str = "sqlite://fulgurite.db";

/// `[store]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `sqlite://FILE` or `postgres://USER:PASSWORD@HOST/DATABASE`, written out without the password. `serve`:
    /// `sqlite://fulgurite.db` by default; `train`: a file in the run's directory.
    #[serde(serialize_with = "redacted")]
    pub url: Option<String>,
    /// `full` survives a power cut, `normal` only `kill -9`.
    pub synchronous: Synchronous,
    /// Seconds for which a PostgreSQL server is waited for that is still starting or goes away, as while it is restarted;
    /// what it had not committed is written again. 0: such a request fails at once.
    pub patience_seconds: f64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let patience_seconds = fulgurite_store::StoreOptions::default().patience.as_secs_f64();
        Self { url: None, synchronous: Synchronous::default(), patience_seconds }
    }
}

fn redacted<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(fulgurite_store::redact_url).serialize(serializer)
}

/// `[engine]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// Threads that sample from each embedded model, and that train it; as many as there are processors unless told
    /// otherwise. No result depends on it.
    pub threads: usize,
    /// Memory of each embedded model for the keys and values of earlier calls, in bytes, so that a prompt which begins as
    /// one of them did is read from there on; 0 keeps none.
    pub prefix_cache_bytes: usize,
    /// `cpu` and nothing else: configs of earlier releases have it. GPUs are for `learner = "torch"` with vLLM
    /// (docs/how-to/gpus.md).
    pub device: EngineDevice,
    /// Bytes of a schema or grammar that an answer is to keep to; larger ones are refused.
    pub grammar_bytes: usize,
    /// JSON values in such a schema: each property, keyword and item is one.
    pub grammar_values: usize,
    /// What `multipleOf` and `patternProperties` of such a schema may cost: remainders that are told apart, and pairs of
    /// patterns that are compared.
    pub grammar_work: u64,
    /// Steps of the compiler for such a schema or grammar, about 50,000 of which take a millisecond.
    pub grammar_steps: u64,
    /// States that such a schema or grammar may have while an answer is sampled, about 1.5 kB each.
    pub grammar_states: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        let EngineOptions { threads, prefix_cache_bytes, grammar_limits, .. } = EngineOptions::default();
        let GrammarLimits { bytes, values, work, steps, states } = grammar_limits;
        Self {
            threads,
            prefix_cache_bytes,
            device: EngineDevice::default(),
            grammar_bytes: bytes,
            grammar_values: values,
            grammar_work: work,
            grammar_steps: steps,
            grammar_states: states,
        }
    }
}

impl EngineConfig {
    /// What an engine is opened with.
    pub fn options(&self) -> EngineOptions {
        let Self { threads, prefix_cache_bytes, .. } = *self;
        let grammar_limits = GrammarLimits {
            bytes: self.grammar_bytes,
            values: self.grammar_values,
            work: self.grammar_work,
            steps: self.grammar_steps,
            states: self.grammar_states,
        };
        EngineOptions { threads, prefix_cache_bytes, grammar_limits, ..EngineOptions::default() }
    }
}

/// `[tinker_server]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TinkerServerConfig {
    /// Keeps checkpoints, and which sessions and training runs there are. Made when a client first needs it.
    pub directory: PathBuf,
    /// How long a client may give no sign of life until its session is over: its models and samplers go, its checkpoints
    /// stay. Clients give one every ten seconds.
    pub session_seconds: f64,
    /// How many requests a training run takes beyond the one that it works at. Clients are told to wait with more.
    pub requests_ahead: u64,
    /// What is computed for the loss `stable_reinforce`, whose objective is not public: `cispo`, with its usual bounds,
    /// `importance_sampling`, or nothing (`refuse`). A pass tells it in its metrics.
    pub stable_reinforce: StableReinforce,
    /// What is done with a seed that comes again with the same prompt: `derive` gives each such call a seed of its own, so that
    /// a group whose members all send one seed still differs; `literal` gives the same tokens again.
    pub repeated_seeds: RepeatedSeeds,
}

impl Default for TinkerServerConfig {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("fulgurite-tinker"),
            session_seconds: 300.0,
            requests_ahead: 1024,
            stable_reinforce: StableReinforce::default(),
            repeated_seeds: RepeatedSeeds::default(),
        }
    }
}

/// `[telemetry]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Base URL of an OpenTelemetry collector, which is sent a span of every model call by OTLP over HTTP; written out
    /// without user, password and query. By default what `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    #[serde(serialize_with = "without_secrets")]
    pub otlp_endpoint: Option<String>,
    /// Whether these spans say what was said.
    pub content: bool,
}

fn without_secrets<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(public_part).serialize(serializer)
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// A power cut.
    #[default]
    Full,
    /// The death of the process.
    Normal,
}

/// `[run]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Name of the run.
    pub name: String,
    /// Where runs are kept, each in `NAME-seed-SEED-NUMBER`.
    pub directory: PathBuf,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self { name: "run".to_owned(), directory: "runs".into(), seed: 1 }
    }
}

/// `[tasks]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksConfig {
    /// What the policy learns on.
    pub train: TaskSource,
    /// What its progress is measured on.
    pub held_out: TaskSource,
    /// What is scored once, after training has stopped.
    #[serde(rename = "final", default)]
    pub last: Option<TaskSource>,
}

/// `[prices]`: what a million tokens costs, so that `fulgurite runs` tells what runs cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PricesConfig {
    /// In what.
    pub currency: String,
    /// A million sampled tokens.
    pub sampled: f64,
    /// A million tokens of prompts, as far as they are new.
    pub prefilled: f64,
    /// A million trained tokens.
    pub trained: f64,
}

impl Default for PricesConfig {
    fn default() -> Self {
        Self { currency: "USD".to_owned(), sampled: 0.0, prefilled: 0.0, trained: 0.0 }
    }
}

/// A config and the directory that its relative paths start from.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// What it says.
    pub config: Config,
    /// The file's directory; the working directory where there is no file.
    pub directory: PathBuf,
    /// The file.
    pub file: Option<PathBuf>,
}

impl LoadedConfig {
    /// Reads a config file; without one, the defaults.
    pub fn read(file: Option<&Path>) -> Result<Self> {
        Self::read_with(file, &[])
    }

    /// As [`read`](Self::read), with what the command line says in place of keys of the file.
    pub fn read_with(file: Option<&Path>, overrides: &[Override]) -> Result<Self> {
        let Some(file) = file else {
            let directory = std::env::current_dir().context("the working directory is gone")?;
            let mut config = Config::default();
            config.trainer.set_defaults(&[]);
            return Ok(Self { config, directory, file: None });
        };
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut config: Config = parse(&text).with_context(|| file.display().to_string())?;
        let mut table: toml::Table = toml::from_str(&text).with_context(|| file.display().to_string())?;
        if !overrides.is_empty() {
            overrides::apply(&mut table, overrides).context("--set")?;
            config = overrides::read(&table, overrides)?;
        }
        let written = trainer_keys(&table);
        let keys = config.trainer.check_keys(written.iter().map(String::as_str));
        keys.with_context(|| file.display().to_string())?;
        config.trainer.set_defaults(&written);
        for (index, model) in config.models.iter().enumerate() {
            model.check().with_context(|| format!("{}: models[{index}] `{}`", file.display(), model.name))?;
        }
        let file = std::path::absolute(file).context("the working directory is gone")?;
        let directory = file.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { config, directory, file: Some(file) })
    }

    /// A path of the config, seen from its directory.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// A Python interpreter that the config names.
    pub fn interpreter(&self, python: &Path) -> PathBuf {
        interpreter(python, &self.directory)
    }
}

/// A Python interpreter: a bare name is looked for in `PATH`, a path starts from the config's directory.
pub fn interpreter(python: &Path, config_directory: &Path) -> PathBuf {
    if python.components().count() > 1 { config_directory.join(python) } else { python.to_owned() }
}

/// The keys that a config has below `[trainer]`; those of tables in it with dots.
fn trainer_keys(all: &toml::Table) -> Vec<String> {
    let mut keys = Vec::new();
    if let Some(toml::Value::Table(trainer)) = all.get("trainer") {
        for (key, value) in trainer {
            match value {
                toml::Value::Table(below) if !below.is_empty() => {
                    keys.extend(below.keys().map(|below| format!("{key}.{below}")))
                }
                _ => keys.push(key.clone()),
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_has_as_many_threads_as_the_config_says() {
        assert_eq!(parse::<Config>("[engine]\nthreads = 3\n").unwrap().engine.options().threads, 3);
        assert_eq!(parse::<Config>("").unwrap().engine.options(), EngineOptions::default());
    }

    /// It was not among the written keys, and so nobody refused it.
    #[test]
    fn an_empty_table_is_a_key_that_is_written() {
        let keys = |text: &str| trainer_keys(&toml::from_str(text).unwrap());
        assert_eq!(keys("[trainer]\nharvest = {}\nkl = { coefficient = 1.0 }\n"), ["harvest", "kl.coefficient"]);
        let config = parse::<Config>("[trainer]\nobjective = \"on_policy_distillation\"\nharvest = {}\n").unwrap();
        let refused = config.trainer.check_keys(["harvest"]).unwrap_err().to_string();
        assert!(
            refused.starts_with("[trainer] harvest is no key of objective = \"on_policy_distillation\""),
            "{refused}"
        );
    }

    #[test]
    fn a_password_is_not_written_out() {
        let config = parse::<Config>("[store]\nurl = \"postgres://me:secret@host/db\"\n").unwrap();
        assert_eq!(config.store.url.as_deref(), Some("postgres://me:secret@host/db"));
        assert_eq!(serde_json::json!(config)["store"]["url"], "postgres://me@host/db");
        for endpoint in ["me:se/cr@et@host:4318/base", "me:se?cr@et@host:4318/base?key=secret"] {
            let config = parse::<Config>(&format!("[telemetry]\notlp_endpoint = \"https://{endpoint}\"\n")).unwrap();
            assert_eq!(serde_json::json!(config)["telemetry"]["otlp_endpoint"], "https://host:4318/base");
        }
    }

    #[test]
    fn a_key_in_the_url_of_a_models_host_is_not_written_out() {
        let text =
            "[[models]]\nname = 'm'\nbackend = 'openai'\nurls = ['https://me:secret@host/v1?key=secret', 'http://h']\n";
        let config = parse::<Config>(text).unwrap();
        assert_eq!(config.models[0].urls[0], "https://me:secret@host/v1?key=secret");
        assert_eq!(serde_json::json!(config)["models"][0]["urls"], serde_json::json!(["https://host/v1", "http://h"]));
    }

    #[test]
    fn a_key_in_the_collectors_query_is_not_written_out() {
        for (endpoint, shown) in [
            ("https://collector?key=secret", "https://collector"),
            ("https://me:word@collector:4318/base?key=se@cret#x", "https://collector:4318/base"),
            ("http://127.0.0.1:4318/#secret", "http://127.0.0.1:4318/"),
            ("collector?key=secret", "collector"),
        ] {
            let config = parse::<Config>(&format!("[telemetry]\notlp_endpoint = \"{endpoint}\"\n")).unwrap();
            assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some(endpoint));
            assert_eq!(serde_json::json!(config)["telemetry"]["otlp_endpoint"], shown);
        }
    }
}
