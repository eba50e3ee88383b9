//! `fulgurite run`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fulgurite_runner::{RunnerOptions, RunnerSummary, supervise};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::cli::arguments::RunArguments;
use crate::cli::output;
use crate::config::admin_key;
use crate::serve::server::{interrupted, seconds};

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

/// The command line by which this program is the parent of agents.
fn supervisor() -> Result<Vec<OsString>> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    // The running program, even if its file has been replaced.
    let running = Path::new("/proc/self/exe");
    let program = if !own.exists() && running.exists() { running.to_owned() } else { own };
    Ok(vec![program.into(), SUPERVISE_AGENT.into()])
}

/// The subcommand by which this program is the parent of agents. It is no part of the command line's grammar: only a runner
/// has the socket that it needs.
const SUPERVISE_AGENT: &str = "supervise-agent";

/// Whether this program was started as [`supervisor`] says.
pub fn is_supervisor() -> bool {
    std::env::args_os().skip(1).eq([SUPERVISE_AGENT])
}

/// Is the parent of agents until the runner lets go.
pub fn supervise_agents() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&anyhow::Error::new(error).context("agents cannot be supervised")),
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
