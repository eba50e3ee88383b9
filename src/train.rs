//! `fulgurite train`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use fulgurite_proxy::ServedModel;
use fulgurite_store::model::{AttemptStatus, NewRun, RolloutConfig};
use fulgurite_store::{AdminKey, Store};
use fulgurite_trainer::{Grpo, PolicyEndpoint, Reporter, RunIdentity, RunSummary, Tasks, TrainEvent};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admin_key;
use crate::base_model;
use crate::cli::TrainArguments;
use crate::config::LoadedConfig;
use crate::metrics_page::MetricsPage;
use crate::model_config::ModelEntry;
use crate::models::TrainedModel;
use crate::report::{JsonReporter, TableReporter};
use crate::runner_process::{RunnerCommand, RunnerProcess};
use crate::serve::open_store;
use crate::server::{Interruptions, RunningServer, write_ready_file};

/// Name of the database in a run's directory.
pub const STORE_FILE: &str = "fulgurite.db";
/// Name of the directory there from which remote hosts read new weights.
const PUBLISHED_WEIGHTS: &str = "published";
/// Name of the file there that says which run it is, and how it was configured.
const CONFIG_FILE: &str = "config.json";

/// For how long runners that were started elsewhere may call the model of a run: longer than a run lasts.
const RUNNERS_KEY_SECONDS: u64 = 90 * 24 * 3600;

/// Makes what is missing, then trains.
pub async fn train(arguments: TrainArguments) -> Result<()> {
    let started = Instant::now();
    let metrics = MetricsPage::install()?;
    let mut loaded = LoadedConfig::read(Some(&arguments.config))?;
    override_by_flags(&mut loaded, &arguments);
    let mut reporter: Box<dyn Reporter> =
        if arguments.json { Box::new(JsonReporter) } else { Box::new(TableReporter::new()) };

    let model = the_model(&loaded)?;
    let tasks = load_tasks(&loaded)?;
    let seed = loaded.config.run.seed;
    let model_directory = loaded.resolve(&fill_seed(&model.path, seed));
    match &loaded.config.base {
        Some(base) => {
            let base_seed = base.seed.unwrap_or(seed);
            let directory = loaded.directory.clone();
            base_model::make_if_missing(base, base_seed, &model_directory, &directory, reporter.as_mut()).await?;
        }
        None if !model_directory.exists() => {
            bail!("{} does not exist, and there is no [base] to make it from", model_directory.display())
        }
        None => {}
    }

    let admin = admin_key::of_server(&loaded)?;
    let run_directory = run_directory(&loaded, &arguments)?;
    let store = open_run_store(&loaded, &run_directory).await?;
    let run_id = begin_run(&store, &loaded, &run_directory, arguments.resume).await?;
    let opened = TrainedModel::open(&model, &model_directory, run_directory.join(PUBLISHED_WEIGHTS), &loaded.config)?;

    let has_runner = !loaded.config.runner.command.is_empty();
    let mut server_config = loaded.config.clone();
    if has_runner {
        // A free port: such a run is no service that others must find, and several may run at once.
        server_config.server.listen = "127.0.0.1:0".to_owned();
    }
    let served = vec![ServedModel::Sampled(opened.served.clone())];
    let mut server =
        RunningServer::start(&server_config, admin.clone(), store.clone(), served, Router::new(), &metrics).await?;
    if let Some(path) = &arguments.ready_file {
        write_ready_file(path, &server.url)?;
    }
    let (runner_process, runner) = match has_runner {
        true => {
            let (process, runner) = start_runner(&loaded, &server.url, admin.clone(), &run_id, &store).await?;
            (Some(process), runner)
        }
        false => {
            reporter.report(TrainEvent::RunnersAwaited { url: server.url.clone() });
            // Nobody can say that no runner is left: another may come at any time.
            (None, watch::channel(None).1)
        }
    };
    let api_key = match admin {
        // Stored with the resources: it opens model calls, and nothing else.
        Some(_) => Some(store.issued_keys().await?.model_calls_key(RUNNERS_KEY_SECONDS)),
        None => None,
    };
    let mut grpo = Grpo {
        record: Arc::new(store.clone()),
        learner: opened.learner,
        options: loaded.config.trainer.clone(),
        tasks,
        identity: RunIdentity { run_id, seed, directory: run_directory },
        rollout_config: rollout_config(&loaded),
        tokenizer: opened.served.renderer.tokenizer().fingerprint().to_owned(),
        endpoint: PolicyEndpoint { url: format!("{}/v1", server.url), model: model.name.clone(), api_key },
        runner,
    };
    let mut interruptions = Interruptions::listen()?;
    let mut last_word = LastWord { reporter, started, summary: None };
    let outcome = tokio::select! {
        outcome = grpo.run(arguments.resume, &mut last_word) => outcome.map_err(anyhow::Error::from),
        error = server.failed() => return Err(error),
        () = interruptions.next() => Err(anyhow!("interrupted; --resume goes on from the last checkpoint")),
    };
    if let Some(process) = runner_process {
        process.stop().await;
    }
    server.stop(interruptions.next()).await?;
    store.close().await;
    outcome?;
    last_word.speak();
    Ok(())
}

/// Starts the runner of a run, once what an earlier one held is given back.
async fn start_runner(
    loaded: &LoadedConfig,
    server: &str,
    admin_key: Option<AdminKey>,
    run_id: &str,
    store: &Store,
) -> Result<(RunnerProcess, watch::Receiver<Option<String>>)> {
    let worker_id = format!("runner-{run_id}");
    store.release_worker(&worker_id).await?;
    let command = RunnerCommand {
        server: server.to_owned(),
        admin_key,
        admin_key_env: loaded.config.server.admin_key_env.clone(),
        worker_id,
        config: loaded.config.runner.clone(),
        directory: loaded.resolve(loaded.config.runner.directory.as_deref().unwrap_or(Path::new(""))),
    };
    Ok(RunnerProcess::start(command, store.clone()))
}

/// Passes events on, but keeps the summary until everything is done, and counts all of the command's time in it.
struct LastWord {
    reporter: Box<dyn Reporter>,
    started: Instant,
    summary: Option<Box<RunSummary>>,
}

impl Reporter for LastWord {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Finished(summary) => self.summary = Some(summary),
            other => self.reporter.report(other),
        }
    }
}

impl LastWord {
    fn speak(mut self) {
        if let Some(mut summary) = self.summary.take() {
            summary.wall_seconds = self.started.elapsed().as_secs_f64();
            self.reporter.report(TrainEvent::Finished(summary));
        }
    }
}

fn override_by_flags(loaded: &mut LoadedConfig, arguments: &TrainArguments) {
    let config = &mut loaded.config;
    if let Some(seed) = arguments.seed {
        config.run.seed = seed;
    }
    if let Some(max_steps) = arguments.max_steps {
        config.trainer.max_steps = max_steps;
    }
    if !arguments.agent.is_empty() {
        config.runner.command = arguments.agent.clone();
    }
}

fn the_model(loaded: &LoadedConfig) -> Result<ModelEntry> {
    match loaded.config.models.as_slice() {
        [model] if model.backend.upstream_dialect().is_some() => {
            bail!(
                "the calls of `{}` are passed on, so that it cannot be trained: its backend is {}",
                model.name,
                model.backend.name()
            )
        }
        [model] => Ok(model.clone()),
        models => bail!("training needs exactly one [[models]], and there are {}", models.len()),
    }
}

fn fill_seed(path: &Path, seed: u64) -> PathBuf {
    PathBuf::from(path.display().to_string().replace("{seed}", &seed.to_string()))
}

fn load_tasks(loaded: &LoadedConfig) -> Result<Tasks> {
    let tasks = loaded.config.tasks.as_ref().context("training needs [tasks]")?;
    let directory = &loaded.directory;
    Ok(Tasks {
        train: tasks.train.load("train", directory)?,
        held_out: tasks.held_out.load("held_out", directory)?,
        last: match &tasks.last {
            Some(source) => source.load("final", directory)?,
            None => Vec::new(),
        },
    })
}

fn rollout_config(loaded: &LoadedConfig) -> RolloutConfig {
    let runner = &loaded.config.runner;
    RolloutConfig {
        // The runner keeps the agent's time; this is for a runner that does not.
        timeout_seconds: Some(runner.timeout_seconds + 30.0),
        // Our runner says every few seconds that its attempts live; others may say nothing until an agent calls.
        unresponsive_seconds: (!runner.command.is_empty()).then_some(60.0),
        max_attempts: runner.max_attempts.max(1),
        retry_condition: vec![AttemptStatus::Failed, AttemptStatus::Timeout, AttemptStatus::Unresponsive],
    }
}

/// A new directory for a new run; the one with the greatest number for `--resume`.
fn run_directory(loaded: &LoadedConfig, arguments: &TrainArguments) -> Result<PathBuf> {
    if let Some(directory) = &arguments.run_directory {
        let exists = directory.join(STORE_FILE).exists();
        match (exists, arguments.resume) {
            (true, false) => bail!("{} holds a run already; --resume goes on with it", directory.display()),
            (false, true) => bail!("{} holds no run to resume", directory.display()),
            _ => {}
        }
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        return std::path::absolute(directory).context("the working directory is gone");
    }
    let parent = loaded.resolve(&loaded.config.run.directory);
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let prefix = format!("{}-seed-{}-", loaded.config.run.name, loaded.config.run.seed);
    let latest = latest_number(&parent, &prefix)?;
    if arguments.resume {
        let latest = latest.ok_or_else(|| anyhow!("{} holds no run {prefix}N to resume", parent.display()))?;
        return Ok(parent.join(format!("{prefix}{latest}")));
    }
    // Two runs that start at once must not take one directory: whoever creates it has it.
    let mut number = latest.map_or(1, |latest| latest + 1);
    loop {
        let directory = parent.join(format!("{prefix}{number}"));
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", directory.display())),
        }
    }
}

fn latest_number(parent: &Path, prefix: &str) -> Result<Option<u64>> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let mut latest = None;
    for entry in entries {
        let name = entry.with_context(|| format!("cannot read {}", parent.display()))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok());
        latest = latest.max(number);
    }
    Ok(latest)
}

async fn open_run_store(loaded: &LoadedConfig, run_directory: &Path) -> Result<Store> {
    let url = match &loaded.config.store.url {
        Some(_) => crate::serve::store_url(loaded),
        None => format!("sqlite://{}", run_directory.join(STORE_FILE).display()),
    };
    open_store(&url, &loaded.config.store).await
}

/// The run's record: a new one, or the one to be resumed. A run is known by what its directory says, wherever that is.
async fn begin_run(store: &Store, loaded: &LoadedConfig, directory: &Path, resume: bool) -> Result<String> {
    let path = directory.join(CONFIG_FILE);
    let (run_id, config) = if resume && path.exists() {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let config: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let run_id = config["run_id"].as_str().with_context(|| format!("{} names no run_id", path.display()))?;
        (run_id.to_owned(), config)
    } else {
        let run_id = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut config = json!({ "run_id": run_id });
        if let (Some(all), Value::Object(own)) = (config.as_object_mut(), json!(loaded.config)) {
            all.extend(own);
        }
        let fresh = path.with_extension("json.new");
        std::fs::write(&fresh, format!("{config:#}\n"))
            .and_then(|()| std::fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        (run_id, config)
    };
    // Missing although the file is there: the process died between the two.
    if store.run(&run_id).await?.is_none() || !resume {
        let name = loaded.config.run.name.clone();
        store.create_run(NewRun { run_id: run_id.clone(), name, config, seed: loaded.config.run.seed }).await?;
    }
    Ok(run_id)
}
