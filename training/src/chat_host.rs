//! Who answers: a server elsewhere, or one that is started here over a model's weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::Learner;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::parse_model;
use fulgurite_hub::{fetched_by, holds_adapter};
use fulgurite_lab::chat::ChatEndpoint;
use fulgurite_lab::records;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::run_routes;
use fulgurite_lab::runs::checkpoints::{checkpoints, run_of};
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;
use fulgurite_proxy::ServedModel;
use fulgurite_server::{Listening, MetricsPage, RunningServer};
use fulgurite_store::Store;
use fulgurite_types::WeightsVersion;
use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;

use crate::evaluation::evaluated_weights::{EvaluatedWeights, OpenWeights, open_over};
use crate::models::open::{OpenModel, TrainedModel};
use crate::notices::Notices;
use crate::silent_reporter::SilentReporter;
use crate::weights::named_weights::NamedWeights;

/// What a model is called that has no config.
const NAME: &str = "model";

/// Who is to answer.
#[derive(Clone, Copy, Debug)]
pub struct ChatTarget<'t> {
    /// A server's URL, or a model directory, a GGUF file, a checkpoint, or a run.
    pub target: &'t str,
    /// Of a run, the model as it was before training.
    pub before: bool,
    /// Which model of a server.
    pub model: Option<&'t str>,
    /// Environment variable of a server's key.
    pub api_key_env: Option<&'t str>,
}

/// Whoever answers, and what has to stay for that.
pub struct ChatHost {
    /// Where it answers.
    pub endpoint: ChatEndpoint,
    /// The model's name there.
    pub model: String,
    /// What is talked to, for people.
    pub description: String,
    own: Option<OwnServer>,
}

/// A server in this process, whose record goes with it.
struct OwnServer {
    server: RunningServer,
    store: Store,
    /// Works as long as it is kept.
    _learner: Option<(Arc<dyn Learner>, TrainedModel)>,
    _directory: TempDir,
}

impl ChatHost {
    /// Finds out what is named, and starts a server for it if it is none.
    ///
    /// # Errors
    /// If nothing is there, if the server has several models and none is named, or if weights cannot be opened.
    pub async fn open(named: &ChatTarget<'_>, client: &Client, notices: &dyn Notices) -> Result<Self> {
        let target = named.target;
        if target.starts_with("http://") || target.starts_with("https://") {
            if named.before {
                bail!("--before is of a run, and {target} is a server");
            }
            return Self::elsewhere(named, client).await;
        }
        if named.model.is_some() || named.api_key_env.is_some() {
            bail!("--model and --api-key-env are of a server, and {target} is no URL");
        }
        let path = Path::new(target);
        let run = Path::new("runs").join(target);
        match [path, run.as_path()].into_iter().find(|path| path.exists()) {
            Some(path) => match run_of(path) {
                Some(run) => Self::of_run(path, &run, named.before, notices).await,
                None if named.before => bail!("--before is of a run, and {target} is none"),
                None => Self::of_model(path, notices).await,
            },
            None => {
                let fetched = fetched_by(target);
                bail!(
                    "{target} is no model directory, GGUF file, checkpoint or run, and there is no run of that name in runs/{fetched}"
                )
            }
        }
    }

    async fn elsewhere(named: &ChatTarget<'_>, client: &Client) -> Result<Self> {
        let base = named.target.trim_end_matches('/');
        let url = if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") };
        let key = match named.api_key_env {
            None => None,
            Some(name) => Some(std::env::var(name).with_context(|| format!("--api-key-env {name}"))?),
        };
        let model = match named.model {
            Some(model) => model.to_owned(),
            None => only_model(client, &url, key.as_deref()).await?,
        };
        let description = format!("{model} at {base}");
        Ok(Self { endpoint: ChatEndpoint { url, key }, model, description, own: None })
    }

    /// A checkpoint of a run, or the last one.
    async fn of_run(path: &Path, run: &Path, before: bool, notices: &dyn Notices) -> Result<Self> {
        let loaded = records::config_of_run(run)?;
        let directory = tempfile::tempdir().context("cannot create a directory for what is said")?;
        let weights = match before {
            true => EvaluatedWeights::of_run_before_training(&loaded, &mut SilentReporter, notices).await?,
            false if records::is_run(path) && checkpoints(path).is_empty() => bail!(
                "{} has no checkpoint yet: name the directory of its model, or wait for its first",
                path.display()
            ),
            false => EvaluatedWeights::of_checkpoint(&loaded, path)?,
        };
        let OpenWeights { served, _learner, .. } = weights.open(&loaded, directory.path(), notices).await?;
        let (model, description) = (weights.entry.name.clone(), weights.description.clone());
        Self::start(loaded, served, _learner, directory, (model, description)).await
    }

    async fn of_model(path: &Path, notices: &dyn Notices) -> Result<Self> {
        let path = std::path::absolute(path).context("the working directory is gone")?;
        let loaded = LoadedConfig::read(None)?;
        let mut entry = parse_model(&format!("{NAME}=embedded:{NAME}"))?;
        entry.path = path.clone();
        let served = match holds_adapter(&path) {
            false => OpenModel::open(&entry, &PathBuf::new(), &loaded.config, notices)?.served,
            true => {
                entry.path = NamedWeights::find(&path, WhichCheckpoint::Final, notices)?.base(None, notices).context(
                    "an adapter's base is what its adapter_config.json names, `model merge BASE ADAPTER NEW` takes another",
                )?;
                let opened = open_over(&entry, &path, WeightsVersion(0), &loaded.config, notices).await;
                ServedModel::Sampled(opened.with_context(|| path.display().to_string())?)
            }
        };
        let directory = tempfile::tempdir().context("cannot create a directory for what is said")?;
        Self::start(loaded, served, None, directory, (NAME.to_owned(), path.display().to_string())).await
    }

    async fn start(
        mut loaded: LoadedConfig,
        served: ServedModel,
        learner: Option<(Arc<dyn Learner>, TrainedModel)>,
        directory: TempDir,
        (model, description): (String, String),
    ) -> Result<Self> {
        let metrics = MetricsPage::install()?;
        loaded.config.server = Default::default();
        loaded.config.server.listen = "127.0.0.1:0".to_owned();
        // What is said here is nobody's record.
        loaded.config.telemetry = Default::default();
        let url = format!("sqlite://{}", directory.path().join("chat.db").display());
        let store = open_store(&url, &loaded.config.store).await?;
        let listening = Listening::begin(&loaded.config.server, None).await?.with(run_routes);
        let served = vec![served];
        let server = RunningServer::start_private(&loaded.config, listening, store.clone(), served, &metrics).await?;
        let endpoint = ChatEndpoint { url: format!("{}/v1", server.url), key: None };
        let own = OwnServer { server, store, _learner: learner, _directory: directory };
        Ok(Self { endpoint, model, description, own: Some(own) })
    }

    /// Lets go of what was started.
    ///
    /// # Errors
    /// If the server did not stop well.
    pub async fn close(self) -> Result<()> {
        if let Some(OwnServer { server, store, .. }) = self.own {
            server.stop(std::future::ready(())).await?;
            store.close().await;
        }
        Ok(())
    }
}

/// The name of a server's only model.
async fn only_model(client: &Client, url: &str, key: Option<&str>) -> Result<String> {
    let mut request = client.get(format!("{url}/models"));
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let cannot = || format!("cannot ask {url}/models which models there are; --model NAME says which");
    let reply = request.send().await.and_then(reqwest::Response::error_for_status).with_context(cannot)?;
    let listed: Value = serde_json::from_str(&reply.text().await.with_context(cannot)?).with_context(cannot)?;
    let names: Vec<&str> =
        listed["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str()).collect();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => bail!("{url} has no model"),
        several => bail!("{url} has several models: name one of {} by --model", several.join(", ")),
    }
}
