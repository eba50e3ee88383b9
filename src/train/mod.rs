//! `fulgurite train`: with a server of its own, or as a daemon beside one.

pub mod arguments;
mod at_server;
mod begin_run;
pub mod data;
pub mod models_beside;
mod orders;
mod pairwise_judge;
mod reference;
pub mod reporters;
mod runner_process;
mod sft;
pub mod soft_targets;
mod start;
mod teachers;
mod uploaded_runs;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fulgurite_backends::SharedGpu;
use fulgurite_config::admin_key;
use fulgurite_config::checks::{check_commands, check_config};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::model_roles::trainable_models;
use fulgurite_config::models::ModelEntry;
use fulgurite_config::runner::tried_again;
use fulgurite_config::trackers::TrackersConfig;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::records::run_directory::run_instance;
use fulgurite_lab::records::run_files::{JUDGEMENTS, WORLDS, model_path};
use fulgurite_lab::run_routes;
use fulgurite_lab::trackers::tracked;
use fulgurite_proxy::ServedModel;
use fulgurite_renderers::Renderer;
use fulgurite_server::{Listening, MetricsPage, RunningServer, write_ready_file};
use fulgurite_store::{AdminKey, Store};
use fulgurite_trainer::{
    Decode, Grpo, PolicyEndpoint, Record, Reporter, RolloutPlan, RunIdentity, RunSummary, StopRule, Tasks, TrainEvent,
    TrainingPlan, WeightsAtStart,
};
use fulgurite_types::RolloutConfig;
use tokio::sync::watch;

use self::orders::Orders;
use self::pairwise_judge::OpenJudge;
use self::reference::ReferenceModel;
use self::start::held_run::RunLoss;
use self::start::own_run::OwnRun;
use self::teachers::OpenTeachers;
use self::uploaded_runs::{open_run_directory, run_archive, upload_keys};
use crate::run::RunnerSettings;
use crate::terminal::notices::TerminalNotices;
use crate::terminal::output;
use crate::train::arguments::TrainArguments;
use crate::train::reporters::{JsonReporter, TableReporter};
use crate::train::runner_process::{RunnerCommand, RunnerProcess};
use fulgurite_training::SilentReporter;
use fulgurite_training::models::base_model::{self, Recipe};
use fulgurite_training::models::model_directory;
use fulgurite_training::models::open::TrainedModel;
use fulgurite_training::models::start_weights::start_weights;

/// Name of the directory in a run's own from which remote hosts read new weights.
const PUBLISHED_WEIGHTS: &str = "published";

/// For how long runners that were started elsewhere may call the model of a run: longer than a run lasts.
const RUNNERS_KEY_SECONDS: u64 = 90 * 24 * 3600;

/// What a run needs, wherever its record is.
struct Prepared {
    loaded: LoadedConfig,
    arguments: TrainArguments,
    orders: Orders,
    reporter: Box<dyn Reporter>,
    model: ModelEntry,
    /// Where the model is.
    model_directory: PathBuf,
    tasks: Tasks,
    started: Instant,
}

/// Makes what is missing, then trains.
pub async fn train(arguments: TrainArguments) -> Result<()> {
    let metrics = MetricsPage::install()?;
    let server = arguments.server.clone();
    let prepared = Prepared::new(arguments, &metrics).await?;
    if prepared.loaded.config.trainer.objective.name().learns_from_data() {
        return sft::train(prepared).await;
    }
    match server {
        Some(url) => at_server::train(prepared, url).await,
        None => train_with_own_server(prepared, &metrics).await,
    }
}

/// A run as its config plans it.
pub struct PlannedRun {
    /// The config, with what the command line says in place of it.
    pub config: Config,
    /// Tasks that are scored while it trains.
    pub held_out: usize,
    /// Tasks that are scored at its end.
    pub last: usize,
}

/// Makes one update on one group of a run, in a directory of its own and without a word; gives what was planned.
pub async fn train_one_group(arguments: TrainArguments, run_directory: PathBuf) -> Result<PlannedRun> {
    let metrics = MetricsPage::install()?;
    let mut prepared = Prepared::new(arguments, &metrics).await?;
    let tasks = &mut prepared.tasks;
    let planned =
        PlannedRun { config: prepared.loaded.config.clone(), held_out: tasks.held_out.len(), last: tasks.last.len() };
    tasks.held_out.truncate(1);
    tasks.last.clear();
    let config = &mut prepared.loaded.config;
    if config.trainer.objective.name().learns_from_data() || config.trainer.harvest().is_some() {
        bail!("--dry-run is of runs that have tasks: what is sampled for them is what they cost");
    }
    (config.trainer.common.max_steps, config.store.url) = (Some(1), None);
    if let Some(rollouts) = config.trainer.rollouts_mut() {
        (rollouts.groups_per_batch, rollouts.stop) = (1, StopRule::default());
    }
    config.trackers = TrackersConfig::default();
    prepared.arguments.run_directory = Some(run_directory);
    prepared.reporter = Box::new(SilentReporter);
    train_with_own_server(prepared, &metrics).await?;
    Ok(planned)
}

impl Prepared {
    async fn new(arguments: TrainArguments, metrics: &MetricsPage) -> Result<Self> {
        let started = Instant::now();
        let orders = Orders::of(&arguments);
        let mut loaded = LoadedConfig::read_with(Some(&arguments.config), &arguments.overrides)?;
        override_by_flags(&mut loaded.config, &arguments);
        let file = || arguments.config.display().to_string();
        check_config(&loaded).with_context(file)?;
        let sampled = metrics.clone();
        let mut reporter: Box<dyn Reporter> = match arguments.json {
            true => Box::new(JsonReporter),
            false => Box::new(TableReporter::new(Some(Box::new(move || sampled.sampled_tokens())))),
        };
        let model = the_model(&loaded).with_context(file)?;
        if loaded.config.trainer.objective.name().learns_from_data() {
            sft::check_model(&loaded, &model).and_then(|()| sft::check(&loaded)).with_context(file)?;
        }
        sft::check_beside(&loaded).with_context(file)?;
        let tasks = load_tasks(&loaded).with_context(file)?;
        check_commands(&loaded, &arguments.agent, &[&tasks.train, &tasks.held_out, &tasks.last]).with_context(file)?;
        let model_directory = model_or_base(&loaded, &model, reporter.as_mut()).await?;
        Ok(Self { loaded, arguments, orders, reporter, model, model_directory, tasks, started })
    }
}

/// The files of a model that is in the config; makes its base first if they are missing and the config says of what.
pub async fn model_or_base(loaded: &LoadedConfig, model: &ModelEntry, reporter: &mut dyn Reporter) -> Result<PathBuf> {
    let seed = loaded.config.run.seed;
    let model_directory = model_path(loaded, model);
    match &loaded.config.base {
        Some(base) => {
            let base_seed = base.seed.unwrap_or(seed);
            let mut secrets = admin_key::variables(&loaded.config.server);
            secrets.extend(upload_keys(loaded));
            let renderer = model.renderer.clone();
            let recipe = Recipe { base: base.clone(), seed: base_seed, renderer, tools: model.tools };
            let (directory, options) = (&loaded.directory, loaded.config.engine.options());
            base_model::make_if_missing(&recipe, &model_directory, directory, &secrets, options, reporter).await?;
        }
        None if !model_directory.exists() => {
            let file = loaded.file.as_ref().map_or(String::new(), |file| format!(" of {}", file.display()));
            bail!(
                "{} does not exist, and there is no [base] to make it from ([[models]] path{file}): `fulgurite model fetch hf:OWNER/NAME \
                 DIR` brings a model, and an example's README says how its own is made",
                model_directory.display(),
            )
        }
        None => {}
    }
    model_directory::model_directory(&model_directory, &TerminalNotices)
}

/// Trains in one process with the server that agents talk to.
async fn train_with_own_server(prepared: Prepared, metrics: &MetricsPage) -> Result<()> {
    let admin = admin_key::of_server(&prepared.loaded)?;
    let run_directory = open_run_directory(&prepared.loaded, &prepared.arguments).await?.path;
    let _run_lock = ExclusiveLock::of_run(&run_directory)?;
    failure::kept(&run_directory, train_in(run_directory.clone(), prepared, admin, metrics)).await
}

/// The same, in a directory whose lock is held.
async fn train_in(
    run_directory: PathBuf,
    prepared: Prepared,
    admin: Option<AdminKey>,
    metrics: &MetricsPage,
) -> Result<()> {
    let run = OwnRun::open(&run_directory, &prepared.loaded, prepared.arguments.resume).await?;
    let train = |store, run_id, loss| train_held(run_directory, prepared, admin, metrics, (store, run_id, loss));
    run.during(train).await?.speak();
    Ok(())
}

/// The same, of a run that is this process's.
async fn train_held(
    run_directory: PathBuf,
    prepared: Prepared,
    admin: Option<AdminKey>,
    metrics: &MetricsPage,
    (store, run_id, mut loss): (Store, String, RunLoss),
) -> Result<LastWord> {
    let Prepared { loaded, arguments, orders, reporter, model, model_directory, tasks, started } = prepared;
    let mut reporter = tracked(reporter, &loaded, &run_directory, |warning| output::note(warning));
    let archive = run_archive(&loaded, &run_directory, &run_id).await?;
    let opened = TrainedModel::open(&model, &model_directory, run_directory.join(PUBLISHED_WEIGHTS), &loaded)?;
    let gpu = opened.gpu.clone();
    if let Some(gpu) = &gpu {
        gpu.prepare().await?;
    }
    let reference = ReferenceModel::open(&loaded, &opened.served.renderer)?;
    let own = Some((&opened.served.sampler, run_directory.as_path()));
    let teachers = OpenTeachers::open(&loaded, &model.name, &opened.served.renderer, own)?;
    let judge = OpenJudge::open(&loaded)?;

    let mut server_config = loaded.config.clone();
    if loaded.config.runner.runs_agents() {
        // A free port: such a run is no service that others must find, and several may run at once.
        server_config.server.listen = "127.0.0.1:0".to_owned();
    }
    let listening = Listening::begin(&server_config.server, admin.clone()).await?.with(run_routes);
    let policy = ServedModel::Sampled(opened.served.clone());
    let served = [policy].into_iter().chain(models_beside::served(&loaded)?).collect();
    let mut server = RunningServer::start_private(&server_config, listening, store.clone(), served, metrics).await?;
    // Whoever reads the ready file may send a signal at once.
    let mut interruptions = Interruptions::listen()?;
    if let Some(path) = &arguments.ready_file {
        write_ready_file(path, &server.url)?;
    }
    reporter.report(TrainEvent::PageServed { url: format!("{}/#/runs/{run_id}", server.url) });
    let record: Arc<dyn Record> = Arc::new(store.clone());
    orders.follow(&record, &run_id).await?;
    let runner = tokio::select! {
        runner = Runner::start(&loaded, AgentsServer::own(&server), admin.clone(), &run_id, &run_directory, &record, reporter.as_mut()) => runner?,
        () = interruptions.next() => bail!(Interrupted),
    };
    let api_key = match admin {
        // Stored with the resources: it opens model calls, and nothing else.
        Some(_) => Some(store.issued_keys().await?.model_calls_key(RUNNERS_KEY_SECONDS)),
        None => None,
    };
    let grpo = Grpo {
        record,
        conversations: sft::beside(&loaded, &run_directory, &model_directory, &opened.served.renderer)?,
        validation: sft::harvest_validation(&loaded, &run_directory, &model_directory, &opened.served.renderer)?,
        learner: opened.learner,
        plan: rollout_plan(&loaded.config)?,
        reference: reference.reference(),
        teachers: teachers.teachers(),
        judge: judge.judge(opened.served.renderer.tokenizer()),
        tasks,
        identity: RunIdentity {
            run_id,
            instance: run_instance(&run_directory)?,
            seed: loaded.config.run.seed,
            directory: run_directory,
            archive,
        },
        rollout_config: rollout_config(&loaded),
        tokenizer: opened.served.renderer.tokenizer().fingerprint().to_owned(),
        decode: decode(opened.served.renderer.clone()),
        endpoint: PolicyEndpoint { url: format!("{}/v1", server.url), model: model.name.clone(), api_key },
        start: start_weights(&model, &model_directory)?,
        at_start: WeightsAtStart::Publish,
        runner: runner.given_up.clone(),
    };
    let mut last_word = LastWord { reporter, started, summary: None };
    let outcome = tokio::select! {
        outcome = grpo.run(arguments.resume, &mut last_word) => outcome.map_err(anyhow::Error::from),
        error = server.failed() => {
            let _ = close(gpu.as_deref()).await;
            return Err(error);
        }
        error = loss.happens() => Err(error),
        () = interruptions.next() => Err(Interrupted.into()),
    };
    // Calls that it holds go on, or end with the server.
    let woken = close(gpu.as_deref()).await;
    runner.stop().await;
    server.stop(interruptions.next()).await?;
    outcome?;
    woken?;
    Ok(last_word)
}

/// Wakes the hosts that a run's learner has had asleep.
async fn close(gpu: Option<&SharedGpu>) -> Result<()> {
    let Some(gpu) = gpu else { return Ok(()) };
    let woken = gpu.close().await;
    if let Err(error) = &woken {
        tracing::error!(%error, "a model host is left asleep");
    }
    Ok(woken?)
}

/// The server of a run's agents.
#[derive(Clone, Copy)]
pub struct AgentsServer<'s> {
    /// Where it is.
    url: &'s str,
    /// The server itself, if this process is it.
    running: Option<&'s RunningServer>,
}

impl<'s> AgentsServer<'s> {
    /// One in this process.
    pub fn own(running: &'s RunningServer) -> Self {
        Self { url: &running.url, running: Some(running) }
    }

    /// Another process, which keeps judges to graders by its own config.
    pub fn elsewhere(url: &'s str) -> Self {
        Self { url, running: None }
    }
}

/// Whoever runs the rollouts of a run.
pub struct Runner {
    /// None if runners are started elsewhere.
    process: Option<RunnerProcess>,
    /// A message here says that nobody is left.
    pub given_up: watch::Receiver<Option<String>>,
}

impl Runner {
    /// Starts the runner that the config tells of, once what an earlier one held is given back, and once the judges of its
    /// rubric are found to agree with people, if that is asked.
    pub async fn start(
        loaded: &LoadedConfig,
        server: AgentsServer<'_>,
        admin_key: Option<AdminKey>,
        run_id: &str,
        run_directory: &Path,
        record: &Arc<dyn Record>,
        reporter: &mut dyn Reporter,
    ) -> Result<Self> {
        let AgentsServer { url: server, running } = server;
        let reserve_judges = || running.iter().for_each(|running| running.reserve_judges(&loaded.config));
        if !loaded.config.runner.runs_agents() {
            reserve_judges();
            let url = server.to_owned();
            reporter.report(match loaded.config.trainer.harvest() {
                Some(_) => TrainEvent::AgentsAwaited { url },
                None => TrainEvent::RunnersAwaited { url },
            });
            // Nobody can say that no runner is left: another may come at any time.
            return Ok(Self { process: None, given_up: watch::channel(None).1 });
        }
        models_beside::hold_against_labels(loaded, server, admin_key.as_ref(), run_directory, reporter).await?;
        reserve_judges();
        let worker_id = format!("runner-{run_id}");
        record.release_worker(&worker_id).await?;
        let command = RunnerCommand {
            server: server.to_owned(),
            admin_key,
            hidden: loaded.config.server.admin_key_env.clone().into_iter().chain(upload_keys(loaded)).collect(),
            worker_id,
            settings: RunnerSettings {
                directory: Some(loaded.resolve(loaded.config.runner.directory.as_deref().unwrap_or(Path::new("")))),
                worlds: run_directory.join(WORLDS),
                judgements: Some(run_directory.join(JUDGEMENTS)),
                config: loaded.config.runner.clone(),
            },
        };
        let (process, given_up) = RunnerProcess::start(command, record.clone());
        Ok(Self { process: Some(process), given_up })
    }

    /// Lets it kill its agents and leave.
    pub async fn stop(self) {
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
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

/// Puts what the command line or the environment says in place of what the config does.
pub fn override_by_flags(config: &mut Config, arguments: &TrainArguments) {
    if let Some(seed) = arguments.seed {
        config.run.seed = seed;
    }
    if let Some(max_steps) = arguments.max_steps {
        config.trainer.common.max_steps = Some(max_steps);
    }
    config.runner.take_agent(&arguments.agent);
}

/// The model that is trained: the only one beside the reference and the teachers, if there are any; or the only teacher, which
/// is then what the model has become.
fn the_model(loaded: &LoadedConfig) -> Result<ModelEntry> {
    match trainable_models(&loaded.config)?.as_slice() {
        [model] if model.backend.upstream_dialect().is_some() => {
            bail!(
                "the calls of `{}` are passed on, so that it cannot be trained: its backend is {}",
                model.name,
                model.backend.name()
            )
        }
        [model] => Ok((*model).clone()),
        [] => bail!("training needs exactly one [[models]], and there are 0"),
        models => bail!(
            "training needs exactly one [[models]], and there are {}; those with trained = false are served beside it",
            models.len()
        ),
    }
}

/// What a run is told that learns from rollouts.
fn rollout_plan(config: &Config) -> Result<RolloutPlan> {
    match config.trainer.plan()? {
        TrainingPlan::Rollouts(plan) => Ok(*plan),
        TrainingPlan::Conversations(_) | TrainingPlan::Comparisons(_) => {
            bail!("objective = \"{}\" learns from no rollouts", config.trainer.objective.name().as_str())
        }
    }
}

/// Reads a model's tokens.
fn decode(renderer: Arc<dyn Renderer>) -> Decode {
    Arc::new(move |tokens| renderer.tokenizer().decode(tokens))
}

fn load_tasks(loaded: &LoadedConfig) -> Result<Tasks> {
    let Config { tasks, trainer, runner, .. } = &loaded.config;
    if trainer.objective.name().learns_from_data() {
        return Ok(Tasks { train: Vec::new(), held_out: Vec::new(), last: Vec::new() });
    }
    if trainer.harvest().is_some() {
        let stops = trainer.rollouts().is_some_and(|rollouts| rollouts.stop != StopRule::default());
        if tasks.is_some() || runner.runs_agents() || stops {
            bail!(
                "[trainer] harvest takes rollouts as they come, and scores none: leave out [tasks], [runner] command and \
                 [trainer] stop"
            );
        }
        return Ok(Tasks { train: Vec::new(), held_out: Vec::new(), last: Vec::new() });
    }
    let tasks = tasks.as_ref().context("training needs [tasks], or [trainer] harvest")?;
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

/// Timeouts and retries of a rollout.
pub fn rollout_config(loaded: &LoadedConfig) -> RolloutConfig {
    let runner = &loaded.config.runner;
    RolloutConfig {
        // The runner keeps the agent's time; this is for a runner that does not.
        timeout_seconds: Some(runner.whole_seconds() + 30.0),
        // Our runner says every few seconds that its attempts live; others may say nothing until an agent calls.
        unresponsive_seconds: runner.runs_agents().then_some(60.0),
        ..tried_again(runner.max_attempts)
    }
}
