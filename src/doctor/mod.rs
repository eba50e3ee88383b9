//! `fulgurite doctor`: what is amiss with a run, and what to do.

pub mod arguments;

use anyhow::Result;
use fulgurite_lab::doctor::findings::{Answer, Finding, Severity};
use fulgurite_lab::doctor::findings_of;
use fulgurite_lab::runs::registry;
use serde_json::json;

use self::arguments::DoctorArguments;
use crate::terminal::output;
use crate::terminal::paint::Paint;
use crate::terminal::table::cut;

/// Prints the findings, the worst first.
pub async fn doctor(arguments: &DoctorArguments) -> Result<()> {
    let (store, run) = registry::open(&registry::directory(&arguments.run)?).await?;
    let found = findings_of(&store, &run).await?;
    if arguments.json {
        found.iter().for_each(|finding| output::line(json!(finding)));
        return Ok(());
    }
    if found.is_empty() {
        output::line(format!("run {}: nothing is amiss by what is recorded", run.run_id));
    }
    let paint = Paint::for_stdout();
    for Finding { name, severity, evidence, what_to_do, answers, .. } in &found {
        let word = match severity {
            Severity::Error => paint.red("error"),
            Severity::Warning => paint.bold("warning"),
        };
        output::line(format!("{word} {name}: {evidence}"));
        for Answer { task, answer, reward, .. } in answers {
            let plain = |text: &str| -> String { text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
            output::line(format!("    {reward:+.3}  {} -> {}", cut(&plain(&task.to_string())), cut(&plain(answer))));
        }
        output::line(format!("    {what_to_do}"));
    }
    Ok(())
}
