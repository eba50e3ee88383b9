//! `fulgurite doctor`: what is amiss with a run, and what to do.

pub mod arguments;
mod facts;
pub mod findings;
pub mod routes;
pub mod servers;
mod stale_harvest;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::Run;
use serde_json::json;

use self::arguments::DoctorArguments;
use self::findings::{Answer, Finding, Severity};
use self::servers::ServerFacts;
use crate::runs::registry;
use crate::terminal::output;
use crate::terminal::paint::Paint;
use crate::terminal::table::cut;

/// All that is amiss with a run, the worst first.
pub async fn findings_of(store: &Store, run: &Run) -> Result<Vec<Finding>> {
    Ok(findings::findings(&facts::facts(store, run).await?))
}

/// What is seen of a run at once.
pub struct Seen {
    /// All that is amiss, the worst first.
    pub findings: Vec<Finding>,
    /// The answer of the rollout that was played last.
    pub answer: Option<Answer>,
    /// What the servers of its store sample from.
    pub servers: ServerFacts,
}

/// The findings, the last answer and the servers of a run.
pub async fn look(store: &Store, run: &Run) -> Result<Seen> {
    let mut facts = facts::facts(store, run).await?;
    Ok(Seen { findings: findings::findings(&facts), answer: facts.answers.pop(), servers: facts.servers })
}

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
