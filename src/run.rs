//! `fulgurite run`.

pub mod arguments;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::runner::RunnerConfig;
use fulgurite_config::seconds::seconds;
use fulgurite_lab::interruptions::interrupted;
use fulgurite_runner::{RunnerOptions, RunnerSummary, SUPERVISE_AGENT, raise_open_files, sandbox_part, supervise};
use fulgurite_terminal::output;
use fulgurite_training::runners::settings::RunnerSettings;
use serde_json::json;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::issued_keys;
use crate::run::arguments::RunArguments;

/// Works off the queue until it is told to stop.
pub async fn run(arguments: RunArguments) -> Result<()> {
    raise_open_files();
    let RunnerSettings { config, directory, worlds, judgements } = settings(&arguments)?;
    let Identity { key, worker_id } = Identity::of(&arguments).await?;
    if key.is_some() {
        admin_key::keep_to_this_process();
    }
    let mut options = RunnerOptions {
        admin_key: key,
        parallel: config.parallel,
        agent_url: config.url.clone(),
        grade_in_sandbox: config.grader_sandbox(directory.as_deref(), this_program()?),
        warm: config.warm,
        supervisor: own_program(SUPERVISE_AGENT)?,
        timeout: seconds("--timeout", config.timeout_seconds)?,
        working_directory: directory,
        rubric: config.rubric.clone().map(|rubric| (rubric, judgements)),
        worlds: config.worlds(worlds, this_program()?)?,
        grade: Some(config.grade).filter(|words| !words.is_empty()),
        until_idle: arguments.until_idle,
        ..RunnerOptions::new(arguments.server.trim_end_matches('/'), config.command)
    };
    if let Some(worker_id) = worker_id {
        options.worker_id = worker_id;
    }
    let until_stdin_closes = arguments.until_stdin_closes;
    let shutdown = async move {
        tokio::select! {
            // Without signals the runner still stops with its work; it must not stop before.
            signal = interrupted() => if signal.is_err() { std::future::pending::<()>().await },
            () = stdin_closed(), if until_stdin_closes => {}
        }
    };
    let summary = fulgurite_runner::run(options, shutdown).await.context("the runner stopped")?;
    announce(&summary, arguments.json);
    Ok(())
}

/// How a runner shows itself to the server.
struct Identity {
    key: Option<String>,
    /// None if any name will do.
    worker_id: Option<String>,
}

impl Identity {
    async fn of(arguments: &RunArguments) -> Result<Self> {
        let worker_id = arguments.worker_id.clone();
        if !arguments.attach {
            let key = admin_key::of_environment()?.map(|key| key.expose().to_owned());
            return Ok(Self { key, worker_id });
        }
        let (name, key) = issued_keys::of_environment(&arguments.server).await?;
        let worker_id = worker_id.unwrap_or_else(|| format!("{name}-{}", Uuid::now_v7()));
        Ok(Self { key: Some(key), worker_id: Some(worker_id) })
    }
}

/// What a run says, or a config, or else the defaults; and in place of it what the command line says.
fn settings(arguments: &RunArguments) -> Result<RunnerSettings> {
    let mut settings = match (&arguments.settings, &arguments.config) {
        (Some(written), _) => serde_json::from_str(written).context("--settings")?,
        (None, Some(file)) => settings_of_config(&LoadedConfig::read(Some(file))?),
        (None, None) => RunnerSettings {
            config: RunnerConfig { parallel: DEFAULT_PARALLEL, ..RunnerConfig::default() },
            directory: None,
            worlds: temporary_worlds(),
            judgements: None,
        },
    };
    let config = &mut settings.config;
    config.take_agent(&arguments.agent);
    match &arguments.grade {
        Some(command) if command.trim().is_empty() => bail!("--grade is empty: it needs at least a program"),
        Some(command) => config.grade = command.split_whitespace().map(str::to_owned).collect(),
        None if !arguments.grade_word.is_empty() => config.grade = arguments.grade_word.clone(),
        None => {}
    }
    config.parallel = arguments.parallel.unwrap_or(config.parallel);
    config.timeout_seconds = arguments.timeout.unwrap_or(config.timeout_seconds);
    config.warm |= arguments.warm;
    if config.parallel == 0 {
        bail!("--parallel must be at least 1");
    }
    seconds("--timeout", config.timeout_seconds)?;
    config.check()?;
    if !config.runs_agents() {
        bail!("[runner] command (or url) is missing: it, or what follows --, is the agent");
    }
    let directory = arguments.directory.clone().or(settings.directory);
    config.check_paths(directory.as_deref().unwrap_or(Path::new("")))?;
    let worlds = arguments.worlds.clone().unwrap_or(settings.worlds);
    Ok(RunnerSettings { config: settings.config, directory, worlds, judgements: settings.judgements })
}

fn settings_of_config(loaded: &LoadedConfig) -> RunnerSettings {
    let config = loaded.config.runner.clone();
    let directory = Some(loaded.resolve(config.directory.as_deref().unwrap_or(Path::new(""))));
    RunnerSettings { config, directory, worlds: temporary_worlds(), judgements: None }
}

/// Agents at a time where nothing is said.
const DEFAULT_PARALLEL: usize = 4;

/// Where worlds are made that belong to no run.
fn temporary_worlds() -> PathBuf {
    std::env::temp_dir().join(format!("fulgurite-worlds-{}", rustix::process::geteuid().as_raw()))
}

/// The command line by which this program is something else.
pub fn own_program(part: &str) -> Result<Vec<OsString>> {
    Ok(vec![this_program()?.into(), part.into()])
}

/// This program's own file.
pub fn this_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    // The running program, even if its file has been replaced.
    let running = Path::new("/proc/self/exe");
    Ok(if !own.exists() && running.exists() { running.to_owned() } else { own })
}

/// What this program is for a runner, if that has started it.
pub fn part_of_runner() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first()? {
        (part, []) if part == SUPERVISE_AGENT => Some(match supervise() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(&anyhow::Error::new(error).context("agents cannot be supervised")),
        }),
        _ => sandbox_part(&words).map(|ended| match ended {
            Ok(status) => ExitCode::from(status),
            Err(error) => crate::fail(&anyhow::Error::new(error).context("the sandbox")),
        }),
    }
}

/// Waits on a thread of its own: one of the runtime's would keep a runner that stops by itself from ending before its standard
/// input is closed.
async fn stdin_closed() {
    let (closed, is_closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // An error is an end as well.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(closed);
    });
    // Nothing is ever sent.
    let _ = is_closed.await;
}

fn announce(summary: &RunnerSummary, json: bool) {
    if json {
        let mut line = json!(summary);
        line["event"] = json!("runner_stopped");
        output::line(line);
    } else {
        let RunnerSummary { succeeded, failed, timed_out, unreported, released } = summary;
        output::line(format!("{succeeded} attempts succeeded, {failed} failed, {timed_out} timed out"));
        if unreported + released > 0 {
            output::line(format!(
                "{released} were given back to the queue, {unreported} the server had given up before they ended"
            ));
        }
    }
}
