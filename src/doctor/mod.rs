//! `fulgurite doctor`: what is amiss with a run or missing on a machine, and what to do.

pub mod arguments;

use anyhow::{Context, Result};
use fulgurite_lab::doctor::finding_lines::{finding_lines, nothing_found};
use fulgurite_lab::doctor::findings::Severity;
use fulgurite_lab::doctor::findings_of;
use fulgurite_lab::doctor::machine::{FactState, MachineFact, machine_facts};
use fulgurite_lab::runs::registry;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use serde_json::json;

use self::arguments::DoctorArguments;

/// Prints the findings of a run, the worst first, or what this machine has.
pub async fn doctor(arguments: &DoctorArguments) -> Result<()> {
    let Some(run) = &arguments.run else { return print_machine(arguments.json) };
    let (store, run) = registry::open(&registry::directory(run)?).await?;
    let found = findings_of(&store, &run).await?;
    if arguments.json {
        found.iter().for_each(|finding| output::line(json!(finding)));
        return Ok(());
    }
    if found.is_empty() {
        output::line(nothing_found(&run.run_id));
    }
    let paint = Paint::for_stdout();
    for finding in &found {
        let word = match finding.severity {
            Severity::Error => paint.red(finding.severity.word()),
            Severity::Warning => paint.bold(finding.severity.word()),
        };
        finding_lines(finding, &word).into_iter().for_each(output::line);
    }
    Ok(())
}

fn print_machine(is_json: bool) -> Result<()> {
    let facts = machine_facts(&std::env::current_dir().context("the working directory is gone")?);
    if is_json {
        facts.iter().for_each(|fact| output::line(json!(fact)));
        return Ok(());
    }
    let paint = Paint::for_stdout();
    for MachineFact { name, state, found, command } in &facts {
        let word = match state {
            FactState::Ok => "ok     ".to_owned(),
            FactState::Missing => paint.bold("missing"),
            FactState::Warning => paint.bold("warning"),
        };
        output::line(format!("{word} {name:13} {found}"));
        command.iter().for_each(|command| output::line(format!("{:22}{command}", "")));
    }
    Ok(())
}
