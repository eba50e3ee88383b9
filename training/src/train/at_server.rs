//! Training as a daemon of its own: the record, the agents' door and the sampling are a server's, over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fulgurite_backends::BackendError;
use fulgurite_client::{Server, ServerOptions};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::ModelEntry;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::records::run_directory::run_id_of;
use fulgurite_lab::trackers::tracked;
use fulgurite_store::AdminKey;
use fulgurite_trainer::{
    Grpo, PolicyEndpoint, Record, RecordError, RemoteRecord, RemotelyServedModel, RunIdentity, Tasks, TrainError,
};

use super::hosts::{PUBLISHED_WEIGHTS, with_kept_adapter};
use super::last_word::LastWord;
use super::prepared::Prepared;
use super::rollouts::{decode, rollout_plan};
use super::sft::AuxiliaryFiles;
use crate::auxiliary::pairwise_judge::OpenJudge;
use crate::auxiliary::reference::ReferenceModel;
use crate::auxiliary::teachers::OpenTeachers;
use crate::models::open::{ServersModel, refuse_used_trainer};
use crate::notices::{Notices, warn};
use crate::runners::{AgentsServer, Runner, rollout_config};
use crate::start::at_server::{ModelStart, StartAtServer};
use crate::start::command_lines::CommandLines;
use crate::start::held_run::{HeldRun, RunLoss};
use crate::start::identity::run_identity;
use crate::start::new_run::{NewRunIn, StartedRun};
use crate::start::owner::StoreAccess;
use crate::start::rules::StartFlag;
use crate::start::run_directory::go_on_with_run;
use crate::start::uploaded_runs::{open_run_directory, run_archive};

/// How long a server may be out of reach at the start: one that never answers is a wrong URL, most likely.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(10);
/// How long it may be out of reach later.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Bytes of an answer: whole prompts of many model calls.
const REPLY_LIMIT: usize = 1 << 30;
/// Failures of the learner one after another, without a step between them, that end a run.
const FAILURES_IN_A_ROW: u32 = 3;

/// Trains what the server at `url` samples.
pub(super) async fn train(prepared: Prepared, url: String) -> Result<()> {
    if prepared.loaded.config.store.url.is_some() {
        bail!("with --server the record is the server's: leave out [store] url");
    }
    let admin = admin_key::of_server(&prepared.loaded)?;
    let model = &prepared.model.name;
    let at_first = Server::new(options(&url, admin.as_ref(), PATIENCE_AT_FIRST))?;
    at_first
        .check_model(model)
        .await
        .with_context(|| format!("cannot train model `{model}` with the server at --server {url}"))?;
    let server = Server::new(options(&url, admin.as_ref(), PATIENCE))?;
    let mut interruptions = Interruptions::listen()?;
    let command_lines = CommandLines::of(&prepared.options, &url);
    let record = RemoteRecord::new(server.clone());
    if prepared.options.resumes() {
        let directory = open_run_directory(&prepared.loaded, &prepared.options);
        let directory = unless_interrupted(&mut interruptions, directory).await?.path;
        let _lock = ExclusiveLock::of_run(&directory)?;
        let opened = OpenedRun { prepared, server, record, admin, command_lines, directory };
        return opened.resume(interruptions).await;
    }
    // Whoever is refused has begun nothing.
    let looking = start_at(&prepared, &server, &record, &command_lines);
    let start = looking.begin(prepared.options.start);
    let start = unless_interrupted(&mut interruptions, start).await?;
    let directory = open_run_directory(&prepared.loaded, &prepared.options);
    let directory = unless_interrupted(&mut interruptions, directory).await?;
    let path = directory.path.clone();
    let lock = match ExclusiveLock::of_run(&path) {
        Ok(lock) => lock,
        Err(error) => {
            directory.unmake();
            return Err(error);
        }
    };
    let opened = OpenedRun { prepared, server, record, admin, command_lines, directory: path.clone() };
    match unless_interrupted(&mut interruptions, opened.begin()).await {
        Ok(StartedRun { run_id, held }) => {
            let loss = held.loss();
            let training = held.during(opened.train(run_id, start, loss, interruptions));
            failure::kept(&path, training).await
        }
        Err(error) => {
            drop(lock);
            // What an interruption leaves, `--resume` goes on with.
            if !error.is::<Interrupted>() {
                directory.unmake();
            }
            Err(error)
        }
    }
}

async fn unless_interrupted<T>(interruptions: &mut Interruptions, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        outcome = work => outcome,
        () = interruptions.next() => Err(Interrupted.into()),
    }
}

/// A run in a directory whose lock is held.
struct OpenedRun {
    prepared: Prepared,
    server: Server,
    record: RemoteRecord,
    admin: Option<AdminKey>,
    command_lines: CommandLines,
    directory: PathBuf,
}

impl OpenedRun {
    /// Begins a new run.
    async fn begin(&self) -> Result<StartedRun> {
        let record: Arc<dyn Record> = Arc::new(self.record.clone());
        let servers_store = self.server.store_url().await?;
        let new = NewRunIn {
            record: &record,
            model: Some(&self.prepared.model.name),
            loaded: &self.prepared.loaded,
            directory: &self.directory,
            servers_store: Some(&servers_store),
            access: StoreAccess::Shared,
            notices: self.prepared.notices.as_ref(),
        };
        new.begin().await
    }

    /// Goes on with a run. Whether the server has it is looked at first: another run of its name is not to be had, nor its
    /// trainer to be ended. What is behind the model is looked at once the run is this process's.
    async fn resume(self, mut interruptions: Interruptions) -> Result<()> {
        let directory = self.directory.clone();
        let looking = start_at(&self.prepared, &self.server, &self.record, &self.command_lines);
        unless_interrupted(&mut interruptions, looking.check_recorded(&directory)).await?;
        let run_id = run_id_of(&directory);
        let held = unless_interrupted(&mut interruptions, self.hold(&run_id)).await?;
        let loss = held.loss();
        held.during(async move {
            let flag = self.prepared.options.start;
            let looking = start_at(&self.prepared, &self.server, &self.record, &self.command_lines);
            let start = unless_interrupted(&mut interruptions, looking.resume(flag, &directory)).await?;
            let training = async move {
                let run_id = unless_interrupted(&mut interruptions, self.recorded()).await?;
                self.train(run_id, start, loss, interruptions).await
            };
            failure::kept(&directory, training).await
        })
        .await
    }

    async fn hold(&self, run_id: &str) -> Result<HeldRun> {
        let record: Arc<dyn Record> = Arc::new(self.record.clone());
        HeldRun::claim(&record, run_id, &self.directory, StoreAccess::Shared).await
    }

    /// The id of the run that goes on, which is recorded at the server then.
    async fn recorded(&self) -> Result<String> {
        let servers_store = self.server.store_url().await?;
        go_on_with_run(&self.record, Some(&servers_store), &self.prepared.loaded, &self.directory).await
    }

    /// Trains a run that is this process's.
    async fn train(
        self,
        run_id: String,
        start: ModelStart,
        mut loss: RunLoss,
        mut interruptions: Interruptions,
    ) -> Result<()> {
        let mut daemon = unless_interrupted(&mut interruptions, Daemon::start(self, run_id, start)).await?;
        let outcome = tokio::select! {
            outcome = daemon.run() => outcome,
            error = loss.happens() => Err(error),
            () = interruptions.next() => Err(Interrupted.into()),
        };
        daemon.runner.stop().await;
        outcome?;
        daemon.last_word.speak();
        Ok(())
    }
}

fn start_at<'s>(
    prepared: &'s Prepared,
    server: &'s Server,
    record: &'s dyn Record,
    command_lines: &'s CommandLines,
) -> StartAtServer<'s> {
    let Prepared { loaded, model, model_directory, .. } = prepared;
    StartAtServer { server, record, loaded, model, model_directory, command_lines }
}

fn options(url: &str, admin_key: Option<&AdminKey>, patience: Duration) -> ServerOptions {
    let admin_key = admin_key.map(|key| key.expose().to_owned());
    ServerOptions { url: url.to_owned(), admin_key, patience, reply_limit: REPLY_LIMIT }
}

/// A run whose record is a server's.
struct Daemon {
    loaded: LoadedConfig,
    resume: bool,
    model: ModelEntry,
    model_directory: PathBuf,
    tasks: Tasks,
    server: Server,
    record: Arc<dyn Record>,
    identity: RunIdentity,
    endpoint: PolicyEndpoint,
    runner: Runner,
    last_word: LastWord,
    notices: Arc<dyn Notices>,
    start: ModelStart,
    command_lines: CommandLines,
}

impl Daemon {
    async fn start(run: OpenedRun, run_id: String, start: ModelStart) -> Result<Self> {
        let OpenedRun { prepared, server, record: remote, admin, command_lines, directory } = run;
        let Prepared { loaded, options, commands, reporter, notices, model, model_directory, tasks, started } =
            prepared;
        let record: Arc<dyn Record> = Arc::new(remote.clone());
        commands.follow(&record, &run_id).await?;
        let mut reporter = tracked(reporter, &loaded, &directory, warn(&notices));
        let archive = run_archive(&loaded, &directory, &run_id).await?;
        let api_key = match admin {
            Some(_) => Some(remote.model_calls_key().await?),
            None => None,
        };
        let runner = Runner::start(
            &loaded,
            AgentsServer::elsewhere(server.url()),
            admin,
            &run_id,
            &directory,
            &record,
            reporter.as_mut(),
        )
        .await?;
        Ok(Self {
            resume: options.resumes(),
            identity: run_identity(&loaded, run_id, &directory, archive)?,
            endpoint: PolicyEndpoint { url: format!("{}/v1", server.url()), model: model.name.clone(), api_key },
            last_word: LastWord::new(reporter, started),
            notices,
            loaded,
            model,
            model_directory,
            tasks,
            server,
            record,
            runner,
            start,
            command_lines,
        })
    }

    /// Runs to the end. A service that was started anew has lost the model that was trained there, but not its
    /// checkpoints: the run goes on from the last one.
    async fn run(&mut self) -> Result<()> {
        let mut failures = Failures::default();
        loop {
            let published = self.identity.directory.join(PUBLISHED_WEIGHTS);
            let (server, run_id) = (self.server.clone(), &self.identity.run_id);
            let ModelStart { start, replaces, .. } = self.start;
            let served = RemotelyServedModel::new(server, &self.model.name, run_id, start, replaces);
            refuse_used_trainer(&self.model, &self.loaded, &published)?;
            let model = with_kept_adapter(&self.model, &self.identity.directory)?;
            let opened = ServersModel::open(&model, &self.model_directory, published, &self.loaded, served)?;
            let reference = ReferenceModel::open(&self.loaded, &opened.renderer, self.notices.as_ref())?;
            let teachers =
                OpenTeachers::open(&self.loaded, &self.model.name, &opened.renderer, None, self.notices.as_ref())?;
            let judge = OpenJudge::open(&self.loaded, self.notices.as_ref())?;
            let AuxiliaryFiles { conversations, validation } =
                AuxiliaryFiles::of(&self.loaded, &self.identity.directory, &self.model_directory, &opened.renderer)?;
            let grpo = Grpo {
                record: self.record.clone(),
                conversations,
                validation,
                learner: opened.learner.clone(),
                plan: rollout_plan(&self.loaded.config)?,
                reference: reference.reference(),
                teachers: teachers.teachers(),
                judge: judge.judge(opened.renderer.tokenizer()),
                tasks: self.tasks.clone(),
                identity: self.identity.clone(),
                rollout_config: rollout_config(&self.loaded),
                tokenizer: opened.renderer.tokenizer().fingerprint().to_owned(),
                decode: decode(opened.renderer.clone()),
                endpoint: self.endpoint.clone(),
                start: self.start.start,
                at_start: self.start.at_start,
                runner: self.runner.given_up.clone(),
            };
            let error = match grpo.run(self.resume, &mut self.last_word).await {
                Err(error @ TrainError::Backend(BackendError::Superseded { .. })) => {
                    return Err(self.looking().overtaken(&self.identity.directory, &error).await);
                }
                // The learner is as it was: the same weights would be posted again.
                Err(TrainError::Backend(error @ BackendError::Unread { .. })) => return Err(error.into()),
                Err(TrainError::Backend(error)) => error,
                outcome => return Ok(outcome.map(|_| ())?),
            };
            if failures.are_too_many(self.record.as_ref(), &self.identity.run_id).await? {
                return Err(error.into());
            }
            tracing::warn!(%error, "the learner failed; the run goes on from its last checkpoint");
            self.resume = true;
            self.start = self.looking().resume(StartFlag::Resume, &self.identity.directory).await?;
        }
    }

    /// A look at what is behind the model.
    fn looking(&self) -> StartAtServer<'_> {
        StartAtServer {
            server: &self.server,
            record: self.record.as_ref(),
            loaded: &self.loaded,
            model: &self.model,
            model_directory: &self.model_directory,
            command_lines: &self.command_lines,
        }
    }
}

/// How often the learner failed since the last step that was recorded.
#[derive(Default)]
struct Failures {
    in_a_row: u32,
    steps: usize,
}

impl Failures {
    /// Counts another one.
    async fn are_too_many(&mut self, record: &dyn Record, run_id: &str) -> Result<bool, RecordError> {
        let steps = record.steps(run_id).await?.len();
        self.in_a_row = if steps > self.steps { 1 } else { self.in_a_row + 1 };
        self.steps = steps;
        Ok(self.in_a_row >= FAILURES_IN_A_ROW)
    }
}
