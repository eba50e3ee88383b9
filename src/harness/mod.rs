//! `fulgurite harness`: what an agent's own command line does with a model that it is served here.

pub mod arguments;
mod evidence;
mod findings;
mod http_log;
mod known;
mod script;
mod scripted_model;
mod stage;
mod trial;

use anyhow::{Result, bail};
use fulgurite_config::seconds::seconds;
use fulgurite_lab::interruptions::Interruptions;
use serde_json::json;

use self::arguments::{HarnessAction, HarnessArguments, HarnessCheckArguments};
use self::findings::{Finding, Verdict};
use self::known::Agent;
use self::stage::Stage;
use self::trial::Trial;
use crate::terminal::output;
use crate::terminal::paint::Paint;
use crate::terminal::progress::Progress;

/// Does what was asked.
pub async fn harness(arguments: HarnessArguments) -> Result<()> {
    match arguments.action {
        HarnessAction::Check(arguments) => check(&arguments).await,
    }
}

/// Has an agent play every trial, and says what it did. Fails where something is amiss with one.
async fn check(arguments: &HarnessCheckArguments) -> Result<()> {
    let agent = Agent::of(arguments.name, &arguments.command)?;
    let timeout = seconds("--timeout", arguments.timeout)?;
    let interruptions = &mut Interruptions::listen()?;
    let mut progress = Progress::new(arguments.json);
    let stage = Stage::open(&agent, timeout).await?;
    let mut evidence = Vec::new();
    for (place, trial) in Trial::ALL.into_iter().enumerate() {
        progress.set("trials", place as u64, Some(Trial::ALL.len() as u64));
        let played = tokio::select! {
            played = stage.play(trial) => played?,
            () = interruptions.next() => bail!("interrupted in the trial {}", trial.name()),
        };
        let nothing_came = played.seen.iter().all(|seen| seen.dialect.is_none());
        evidence.push(played);
        if nothing_came {
            // The others would find out no more.
            break;
        }
    }
    progress.finish();
    stage.close(interruptions.next()).await?;
    let findings = findings::of(&evidence);
    match arguments.json {
        true => output::line(json!({ "harness": agent.name, "version": agent.version, "findings": findings })),
        false => print(&agent, &findings),
    }
    let amiss: Vec<&str> =
        findings.iter().filter(|found| found.verdict == Verdict::Fault).map(|found| found.check.name()).collect();
    match amiss.as_slice() {
        [] => Ok(()),
        amiss => bail!("{} of {} checks failed: {}", amiss.len(), findings.len(), amiss.join(", ")),
    }
}

fn print(agent: &Agent, findings: &[Finding]) {
    let version = agent.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    output::line(format!("{}{version}", agent.name));
    let paint = Paint::for_stdout();
    for Finding { check, verdict, message, .. } in findings {
        let word = format!("{:8}", verdict.name());
        let word = match verdict {
            Verdict::Ok => word,
            Verdict::Warning => paint.bold(&word).to_string(),
            Verdict::Fault => paint.red(&word).to_string(),
        };
        output::line(format!("{word} {:15} {message}", check.name()));
    }
}
