//! Where trials are played: a server with the scripted model, and a runner of the agent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::run_routes;
use fulgurite_proxy::ServedModel;
use fulgurite_runner::{RunnerOptions, SandboxOptions, WorldOptions};
use fulgurite_server::{Listening, MetricsPage, RunningServer};
use fulgurite_store::Store;
use fulgurite_types::{AttemptRef, Generation, GenerationFilter, NewRollout, Object};
use serde_json::json;
use tempfile::TempDir;

use super::agents::Agent;
use super::check_options::CheckOptions;
use super::evidence::{Evidence, RecordedCall};
use super::http_log::{BASES, BY, HttpLog, KEYS};
use super::script::Prompt;
use super::scripted_model::ScriptedModel;
use super::trial::Trial;

/// Each attempt is graded, so that an agent need print nothing.
const GRADE: [&str; 2] = ["echo", r#"{"reward": 1}"#];
/// What a world's making and removal may take: it is an empty directory.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// The name of its metadata's field, and of what a budget has.
const BUDGET: &str = "fulgurite_budget";

/// A server and what it needs.
pub(crate) struct Stage {
    server: RunningServer,
    store: Store,
    model: Arc<ScriptedModel>,
    log: Arc<HttpLog>,
    runner: RunnerOptions,
    _directory: TempDir,
}

impl Stage {
    /// Starts the server.
    pub(crate) async fn open(agent: &Agent, options: CheckOptions) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot create a directory for the trials")?;
        let [tokenizer, home, worlds] = ["tokenizer", "home", "worlds"].map(|name| directory.path().join(name));
        for made in [&tokenizer, &home] {
            std::fs::create_dir(made).with_context(|| format!("cannot create {}", made.display()))?;
        }
        let model = ScriptedModel::new(&tokenizer, agent.ended_by)?;
        let metrics = MetricsPage::install()?;
        let mut config = LoadedConfig::read(None)?.config;
        config.server.listen = "127.0.0.1:0".to_owned();
        // What fails or breaks off is to reach the agent.
        config.proxy.host_patience_seconds = 0.0;
        let url = format!("sqlite://{}", directory.path().join("trials.db").display());
        let store = open_store(&url, &config.store).await?;
        let log = Arc::new(HttpLog::default());
        let around = log.clone();
        let listening =
            Listening::begin(&config.server, None).await?.with(run_routes).within(move |routes| around.around(routes));
        let served = vec![ServedModel::Sampled(model.served())];
        let server = RunningServer::start_private(&config, listening, store.clone(), served, &metrics).await?;
        let home = agent.has_own_home.then(|| home.display().to_string());
        let runner = RunnerOptions {
            supervisor: options.supervisor,
            timeout: options.timeout,
            grade: Some(GRADE.map(str::to_owned).to_vec()),
            worlds: Some(worlds_in(worlds, options.own_program)),
            working_directory: Some(std::env::current_dir().context("the working directory is gone")?),
            until_idle: true,
            ..RunnerOptions::new(&server.url, within_variables(&agent.command, home))
        };
        Ok(Self { server, store, model, log, runner, _directory: directory })
    }

    /// Has the agent play a trial.
    pub(crate) async fn play(&self, trial: Trial) -> Result<Evidence> {
        let rollout_id = trial.rollout_id();
        let budget = (trial == Trial::Budget).then(|| (BUDGET.to_owned(), json!({ "calls": Trial::CALLS })));
        let rollout = NewRollout {
            rollout_id: Some(rollout_id.clone()),
            input: json!(trial.task()),
            metadata: Some(Object::from_iter(budget)),
            ..NewRollout::default()
        };
        self.store.rollouts().enqueue(vec![rollout]).await?;
        fulgurite_runner::run(self.runner.clone(), std::future::pending()).await.context("the runner stopped")?;
        let attempt = self.store.attempts().get(&rollout_id, AttemptRef::Latest).await?;
        let filter = GenerationFilter { rollout_id: Some(rollout_id), ..GenerationFilter::default() };
        let calls =
            self.store.generations().matching(&filter).await?.into_iter().map(|generation| self.recorded(generation));
        Ok(Evidence {
            trial,
            attempt: attempt.context("the runner did not begin the trial")?,
            seen: self.log.of(trial),
            model: self.model.state(trial),
            calls: calls.collect(),
        })
    }

    fn recorded(&self, generation: Generation) -> RecordedCall {
        let prompt = self.model.text(&generation.prompt_tokens);
        let is_of_task = Prompt::read(&prompt).trial.is_some();
        RecordedCall { generation, prompt, is_of_task }
    }

    /// Stops the server; all of it is gone then.
    pub(crate) async fn close(self, at_once: impl Future<Output = ()>) -> Result<()> {
        self.server.stop(at_once).await?;
        self.store.close().await;
        Ok(())
    }
}

fn worlds_in(directory: PathBuf, own_program: PathBuf) -> WorldOptions {
    WorldOptions {
        directory,
        setup: Vec::new(),
        snapshot: Vec::new(),
        teardown: Vec::new(),
        hook_timeout: HOOK_TIMEOUT,
        unwatched: Vec::new(),
        harbor_tests: false,
        sandbox: SandboxOptions::default(),
        own_program,
        reward_file: None,
        reward_key: None,
    }
}

/// The agent's command in variables that can be told from each other by what arrives: each base URL has its own path, each key
/// is its own name.
fn within_variables(command: &[String], home: Option<String>) -> Vec<String> {
    let mut script = String::new();
    for name in BASES {
        script.push_str(&format!(
            "{name}=$(printf %s \"${name}\" | sed 's#/rollout/#{BY}{name}/rollout/#')\nexport {name}\n"
        ));
    }
    for name in KEYS {
        script.push_str(&format!("export {name}={name}\n"));
    }
    if home.is_some() {
        script.push_str("export HOME=\"$0\"\nunset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME\n");
    }
    script.push_str("exec \"$@\"");
    let words = ["sh".to_owned(), "-c".to_owned(), script, home.unwrap_or_else(|| "sh".to_owned())];
    words.into_iter().chain(command.iter().cloned()).collect()
}
