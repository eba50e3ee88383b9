//! Training in one process with the server that agents talk to.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use fulgurite_config::admin_key;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::trackers::tracked;
use fulgurite_proxy::ServedModel;
use fulgurite_server::{MetricsPage, write_ready_file};
use fulgurite_store::{AdminKey, Store};
use fulgurite_trainer::{Grpo, Record, TrainEvent, WeightsAtStart};

use super::hosts::{close, open_trained};
use super::last_word::LastWord;
use super::prepared::Prepared;
use super::rollouts::{decode, rollout_plan};
use super::sft::AuxiliaryFiles;
use crate::auxiliary::pairwise_judge::OpenJudge;
use crate::auxiliary::reference::ReferenceModel;
use crate::auxiliary::teachers::OpenTeachers;
use crate::models::start_weights::start_weights;
use crate::notices::warn;
use crate::runners::policy_server::{policy_endpoint, start_policy_server};
use crate::runners::{AgentsServer, Runner, rollout_config};
use crate::start::held_run::RunLoss;
use crate::start::identity::run_identity;
use crate::start::own_run::OwnRun;
use crate::start::uploaded_runs::{open_run_directory, run_archive};

/// For how long runners that were started elsewhere may call the model of a run: longer than a run lasts.
const RUNNERS_KEY_SECONDS: u64 = 90 * 24 * 3600;

/// Trains in one process with the server that agents talk to.
pub(super) async fn train(prepared: Prepared, metrics: &MetricsPage) -> Result<()> {
    let admin = admin_key::of_server(&prepared.loaded)?;
    let run_directory = open_run_directory(&prepared.loaded, &prepared.options).await?.path;
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
    let run =
        OwnRun::open(&run_directory, &prepared.loaded, prepared.options.resumes(), prepared.notices.as_ref()).await?;
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
    let Prepared { loaded, options, commands, reporter, notices, model, model_directory, tasks, started } = prepared;
    let mut reporter = tracked(reporter, &loaded, &run_directory, warn(&notices));
    let archive = run_archive(&loaded, &run_directory, &run_id).await?;
    let opened = open_trained(&loaded, &model, &model_directory, &run_directory).await?;
    let (gpu, renderer) = (opened.gpu.clone(), opened.served.renderer.clone());
    let reference = ReferenceModel::open(&loaded, &renderer, notices.as_ref())?;
    let own = Some((&opened.served.sampler, run_directory.as_path()));
    let teachers = OpenTeachers::open(&loaded, &model.name, &renderer, own, notices.as_ref())?;
    let judge = OpenJudge::open(&loaded, notices.as_ref())?;
    let policy = ServedModel::Sampled(opened.served.clone());
    let mut server = start_policy_server(&loaded, admin.clone(), &store, policy, metrics, notices.as_ref()).await?;
    // Whoever reads the ready file may send a signal at once.
    let mut interruptions = Interruptions::listen()?;
    if let Some(path) = &options.ready_file {
        write_ready_file(path, &server.url)?;
    }
    reporter.report(TrainEvent::PageServed { url: format!("{}/#/runs/{run_id}", server.url) });
    let record: Arc<dyn Record> = Arc::new(store.clone());
    commands.follow(&record, &run_id).await?;
    let runner = tokio::select! {
        runner = Runner::start(&loaded, AgentsServer::own(&server), admin.clone(), &run_id, &run_directory, &record, reporter.as_mut()) => runner?,
        () = interruptions.next() => bail!(Interrupted),
    };
    let endpoint = policy_endpoint(&server, &store, model.name.clone(), admin.as_ref(), RUNNERS_KEY_SECONDS).await?;
    let AuxiliaryFiles { conversations, validation } =
        AuxiliaryFiles::of(&loaded, &run_directory, &model_directory, &renderer)?;
    let grpo = Grpo {
        record,
        conversations,
        validation,
        learner: opened.learner,
        plan: rollout_plan(&loaded.config)?,
        reference: reference.reference(),
        teachers: teachers.teachers(),
        judge: judge.judge(renderer.tokenizer()),
        tasks,
        identity: run_identity(&loaded, run_id, &run_directory, archive)?,
        rollout_config: rollout_config(&loaded),
        tokenizer: renderer.tokenizer().fingerprint().to_owned(),
        decode: decode(renderer),
        endpoint,
        start: start_weights(&model, &model_directory)?,
        // With an adapter, the start is not the files, and has a name of its own.
        at_start: if model.adapter.is_some() { WeightsAtStart::Replace } else { WeightsAtStart::Publish },
        runner: runner.given_up.clone(),
    };
    let mut last_word = LastWord::new(reporter, started);
    let outcome = tokio::select! {
        outcome = grpo.run(options.resumes(), &mut last_word) => outcome.map_err(anyhow::Error::from),
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
