//! `fulgurite harness`: what an agent's own command line does with a model that it is served here.

pub mod arguments;

use anyhow::{Result, bail};
use fulgurite_config::seconds::seconds;
use fulgurite_harness::{Agent, CheckOptions, Finding, Verdict, check_agent};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_runner::SUPERVISE_AGENT;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_terminal::progress::Progress;
use serde_json::json;

use self::arguments::{HarnessAction, HarnessArguments, HarnessCheckArguments};
use crate::run::{own_program, this_program};

/// Does what was asked.
pub async fn harness(arguments: HarnessArguments) -> Result<()> {
    match arguments.action {
        HarnessAction::Check(arguments) => check(&arguments).await,
    }
}

/// Has an agent play every trial, and says what it did. Fails where something is amiss with one.
async fn check(arguments: &HarnessCheckArguments) -> Result<()> {
    let agent = Agent::of(arguments.name.map(Into::into), &arguments.command)?;
    let timeout = seconds("--timeout", arguments.timeout)?;
    let interruptions = &mut Interruptions::listen()?;
    let options = CheckOptions { timeout, supervisor: own_program(SUPERVISE_AGENT)?, own_program: this_program()? };
    let mut progress = Progress::new(arguments.json);
    let show = |done, all| progress.set("trials", done, Some(all));
    let findings = check_agent(&agent, options, interruptions, show).await?;
    progress.finish();
    match arguments.json {
        true => output::line(json!({ "harness": agent.name, "version": agent.version, "findings": findings })),
        false => print(&agent, &findings),
    }
    let failed: Vec<&str> =
        findings.iter().filter(|found| found.verdict == Verdict::Fault).map(|found| found.check.name()).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => bail!("{} of {} checks failed: {}", failed.len(), findings.len(), failed.join(", ")),
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
            Verdict::Warning => paint.bold(&word),
            Verdict::Fault => paint.red(&word),
        };
        output::line(format!("{word} {:15} {message}", check.name()));
    }
}
