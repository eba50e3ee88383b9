//! Evaluations: tasks scored by a model as it is, and held against other scores.

pub mod against;
pub mod evaluated_weights;
pub mod inspect_log;
pub mod options;
mod plan;
pub mod result_file;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::{admin_key, checks};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::records::run_files::CONFIG_FILE;
use fulgurite_lab::runs::checkpoints::run_of;
use fulgurite_server::MetricsPage;
use fulgurite_store::Store;
use fulgurite_trainer::{EVALUATION_KIND, EvaluatedTasks, Record, Reporter, RunIdentity, TaskEvaluation, TaskScore};
use fulgurite_types::NewRun;
use serde_json::{Value, json};

use self::against::Against;
use self::evaluated_weights::{EvaluatedWeights, OpenWeights};
use self::options::EvalOptions;
use self::plan::Plan;
use self::result_file::{ResultFile, first_final_score};
use crate::notices::Notices;
use crate::runners::policy_server::{policy_endpoint, start_policy_server};
use crate::runners::{AgentsServer, Runner, rollout_config};

/// For how long runners that were started elsewhere may call the model.
const RUNNERS_KEY_SECONDS: u64 = 7 * 24 * 3600;

/// A result, and what it is to be held against.
pub struct Evaluation {
    /// The result.
    pub result: ResultFile,
    /// Other scores, if the options name some.
    pub against: Option<Against>,
}

/// Scores tasks; what an interrupted evaluation has is not sampled again.
///
/// # Errors
/// If the config, the weights or the other scores are refused, if the weights have been scored on final tasks before, or if
/// sampling fails or is interrupted.
pub async fn evaluate(options: &EvalOptions, reporter: &mut dyn Reporter, notices: &dyn Notices) -> Result<Evaluation> {
    let started = Instant::now();
    let loaded = load(options)?;
    let file = || loaded.file.as_ref().map_or("the run's config".to_owned(), |file| file.display().to_string());
    checks::check_config(&loaded).with_context(file)?;
    let tasks = load_tasks(&loaded, options).with_context(file)?;
    let samples = options.samples.unwrap_or(loaded.config.trainer.rollouts_or_usual().evaluation.samples_per_task);
    if samples == 0 {
        bail!("--samples is 0, but must be at least 1");
    }
    checks::check_commands(&loaded, &options.agent, &[&tasks]).with_context(file)?;
    if let Some(path) = options.against.as_ref().filter(|path| !path.exists()) {
        bail!("--against {}: there is no such directory", path.display());
    }
    let weights = EvaluatedWeights::choose(&loaded, options, reporter, notices).await.with_context(file)?;
    let plan = Plan { loaded: &loaded, options, weights: &weights, tasks, samples };
    // Looked at first, so that a name that is wrong costs no sample.
    let against = match &options.against {
        Some(path) => Some(against::scores(path, &plan).await?),
        None => None,
    };
    let directory = plan.directory()?;
    if let Some(first) = first_final_score(&plan).await? {
        bail!(
            "these weights have been scored on [tasks] final already, and once is all that keeps it a measure: {} ({}). \
             Leave out --final to score [tasks] held_out",
            first.words,
            first.run_id
        );
    }
    let result = match ResultFile::read(&directory)? {
        Some(first) => first,
        None => sample(&plan, &directory, reporter, notices, started).await?,
    };
    Ok(Evaluation { result, against })
}

/// Takes over what Inspect scored, as an evaluation among the others. `scorer` names the scorer whose value is the reward, in
/// place of the first, and `against` another evaluation.
///
/// # Errors
/// If the log cannot be read, if `against` is no evaluation, or if the result cannot be written.
pub fn import_inspect_log(log: &Path, scorer: Option<&str>, against: Option<&Path>) -> Result<Evaluation> {
    let mut result = inspect_log::read(log, scorer)?;
    let against = match against {
        Some(path) => {
            let found = against::of_evaluation(path)?;
            Some(found.with_context(|| format!("--against {}: there is no evaluation", path.display()))?)
        }
        None => None,
    };
    result.directory = Path::new("runs").join(&result.run_id);
    std::fs::create_dir_all(&result.directory)
        .with_context(|| format!("cannot create {}", result.directory.display()))?;
    result.write()?;
    Ok(Evaluation { result, against })
}

/// The config that the command line names, or that of the run which the checkpoint is of.
fn load(options: &EvalOptions) -> Result<LoadedConfig> {
    let mut loaded = match (&options.config, &options.checkpoint) {
        (Some(path), _) if path.is_dir() => {
            if !options.overrides.is_empty() {
                bail!(
                    "--set puts values in place of a config file's, and {} is the directory of a run",
                    path.display()
                );
            }
            records::config_of_run(path)?
        }
        (Some(path), _) => LoadedConfig::read_with(Some(path), &options.overrides)?,
        (None, Some(checkpoint)) => match run_of(checkpoint) {
            Some(run) => records::config_of_run(&run)?,
            None => bail!("{} is of no run: name a config too", checkpoint.display()),
        },
        (None, None) => bail!("what is evaluated? Name a config, or a run by --checkpoint DIR"),
    };
    if let Some(seed) = options.seed {
        loaded.config.run.seed = seed;
    }
    loaded.config.runner.take_agent(&options.agent);
    Ok(loaded)
}

fn load_tasks(loaded: &LoadedConfig, options: &EvalOptions) -> Result<Vec<Value>> {
    let tasks = loaded.config.tasks.as_ref().context("an evaluation needs [tasks] held_out")?;
    if options.tasks != EvaluatedTasks::Final {
        return Ok(tasks.held_out.load("held_out", &loaded.directory)?);
    }
    let last = tasks.last.as_ref().context("--final scores [tasks] final, and there is none")?;
    Ok(last.load("final", &loaded.directory)?)
}

/// Samples what is missing, with a server of its own.
async fn sample(
    plan: &Plan<'_>,
    directory: &Path,
    reporter: &mut dyn Reporter,
    notices: &dyn Notices,
    started: Instant,
) -> Result<ResultFile> {
    let Plan { loaded, weights, .. } = plan;
    let metrics = MetricsPage::install()?;
    let admin = admin_key::of_server(loaded)?;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let _run_lock = ExclusiveLock::of_evaluation(directory)?;
    let store_url = records::run_store_url(loaded, directory);
    let _store_lock = ExclusiveLock::of_store(&store_url, "fulgurite eval")?;
    let store = open_store(&store_url, &loaded.config.store).await?;
    let run_id = begin(&store, plan, directory).await?;
    let OpenWeights { served, tokenizer, _learner } = weights.open(loaded, directory, notices).await?;
    let mut server = start_policy_server(loaded, admin.clone(), &store, served, &metrics, notices).await?;
    let mut interruptions = Interruptions::listen()?;
    let record: Arc<dyn Record> = Arc::new(store.clone());
    let agents_server = AgentsServer::own(&server);
    let runner = Runner::start(loaded, agents_server, admin.clone(), &run_id, directory, &record, reporter).await?;
    let model = weights.entry.name.clone();
    let endpoint = policy_endpoint(&server, &store, model, admin.as_ref(), RUNNERS_KEY_SECONDS).await?;
    let options = loaded.config.trainer.rollouts_or_usual();
    let evaluation = TaskEvaluation {
        record,
        identity: RunIdentity {
            run_id: run_id.clone(),
            instance: run_id.clone(),
            seed: loaded.config.run.seed,
            directory: directory.to_owned(),
            archive: None,
        },
        step: weights.step,
        evaluated: plan.evaluated(),
        tasks: plan.tasks.clone(),
        samples: plan.samples,
        rollout_config: rollout_config(loaded),
        tokenizer,
        reward_rules: options.reward_rules(),
        sampling_parameters: options.sampling_parameters,
        endpoint,
        runner: runner.given_up.clone(),
    };
    let outcome = tokio::select! {
        outcome = evaluation.run(reporter) => outcome.map_err(anyhow::Error::from),
        error = server.failed() => return Err(error),
        () = interruptions.next() => Err(anyhow!("interrupted; the same command goes on with what is missing")),
    };
    runner.stop().await;
    server.stop(interruptions.next()).await?;
    store.close().await;
    let result = result_of(plan, run_id, directory, outcome?, started);
    result.write()?;
    Ok(result)
}

fn result_of(
    plan: &Plan<'_>,
    run_id: String,
    directory: &Path,
    scores: Vec<TaskScore>,
    started: Instant,
) -> ResultFile {
    let weights = &plan.weights;
    ResultFile {
        run_id,
        directory: directory.to_owned(),
        evaluated: plan.evaluated().as_str().to_owned(),
        weights: weights.identity.clone(),
        weights_from: weights.description.clone(),
        step: weights.step,
        tasks_digest: plan.tasks_digest(),
        samples: plan.samples,
        seed: plan.loaded.config.run.seed,
        scores,
        wall_seconds: started.elapsed().as_secs_f64(),
    }
}

/// The run of the evaluation in the store: a new one, or that of a command that was cut short.
async fn begin(store: &Store, plan: &Plan<'_>, directory: &Path) -> Result<String> {
    let run_id = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut config = json!({
        "run_id": run_id,
        "kind": EVALUATION_KIND,
        "evaluation": {
            "tasks": plan.evaluated().as_str(),
            "tasks_digest": plan.tasks_digest(),
            "samples": plan.samples,
            "weights": plan.weights.identity,
            "weights_from": plan.weights.description,
        },
        "config_directory": std::path::absolute(&plan.loaded.directory).unwrap_or_else(|_| plan.loaded.directory.clone()),
    });
    if let (Some(all), Value::Object(own)) = (config.as_object_mut(), json!(plan.loaded.config)) {
        all.extend(own);
    }
    records::write_whole(&directory.join(CONFIG_FILE), &format!("{config:#}\n"))?;
    if store.runs().get(&run_id).await?.is_none() {
        let (name, seed) = (plan.loaded.config.run.name.clone(), plan.loaded.config.run.seed);
        store.runs().create(NewRun { run_id: run_id.clone(), name, config, seed }).await?;
    }
    Ok(run_id)
}
