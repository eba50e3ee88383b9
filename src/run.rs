//! `fulgurite run`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fulgurite_runner::{RunnerOptions, RunnerSummary, supervise};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::admin_key;
use crate::cli::RunArguments;
use crate::output;
use crate::server::{interrupted, seconds};

/// Works off the queue until it is told to stop.
pub async fn run(arguments: RunArguments) -> Result<()> {
    let timeout = seconds("--timeout", arguments.timeout)?;
    if arguments.parallel == 0 {
        bail!("--parallel must be at least 1");
    }
    let grade = match arguments.grade {
        Some(command) => Some(command.split_whitespace().map(str::to_owned).collect()),
        None if arguments.grade_word.is_empty() => None,
        None => Some(arguments.grade_word),
    };
    let admin_key = admin_key::of_environment()?;
    if admin_key.is_some() {
        admin_key::keep_to_this_process();
    }
    let mut options = RunnerOptions {
        admin_key: admin_key.map(|key| key.expose().to_owned()),
        parallel: arguments.parallel,
        warm: arguments.warm,
        grade,
        supervisor: supervisor()?,
        timeout,
        working_directory: arguments.directory,
        until_idle: arguments.until_idle,
        ..RunnerOptions::new(arguments.server.trim_end_matches('/'), arguments.agent)
    };
    if let Some(worker_id) = arguments.worker_id {
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

/// The command line by which this program is the parent of an agent.
fn supervisor() -> Result<Vec<OsString>> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    // The running program, even if its file has been replaced.
    let running = Path::new("/proc/self/exe");
    let program = if !own.exists() && running.exists() { running.to_owned() } else { own };
    Ok(vec![program.into(), SUPERVISE_AGENT.into(), "--".into()])
}

/// The subcommand by which this program is the parent of an agent.
const SUPERVISE_AGENT: &str = "supervise-agent";

/// The agent's words where [`supervisor`] put this program before them. That is once for every attempt, so it is seen before
/// the whole command line's grammar is built.
pub fn supervised_words(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let is_supervisor = words.next()? == SUPERVISE_AGENT && words.next()? == "--";
    is_supervisor.then(|| words.collect())
}

/// `fulgurite supervise-agent`: the parent of an agent.
pub fn supervise_agent(words: &[OsString]) -> ExitCode {
    let [program, arguments @ ..] = words else { return ExitCode::from(2) };
    match supervise(program, arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => crate::fail(&anyhow::Error::new(error).context("the agent cannot be supervised")),
    }
}

async fn stdin_closed() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0u8; 64];
    // An error is an end as well.
    while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
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
