//! Every trial, one after another.

use anyhow::{Result, bail};
use fulgurite_lab::interruptions::Interruptions;

use crate::agents::Agent;
use crate::check_options::CheckOptions;
use crate::findings::{Finding, findings_of};
use crate::stage::Stage;
use crate::trial::Trial;

/// Has an agent play every trial, and says what was found. `progress` is told before each how many are done, and of how many.
///
/// # Errors
/// If the server or the runner cannot be started, or the check is interrupted. What is wrong with the agent is in the findings.
pub async fn check_agent(
    agent: &Agent,
    options: CheckOptions,
    interruptions: &mut Interruptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<Finding>> {
    let stage = Stage::open(agent, options).await?;
    let mut evidence = Vec::new();
    for (place, trial) in Trial::ALL.into_iter().enumerate() {
        progress(place as u64, Trial::ALL.len() as u64);
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
    stage.close(interruptions.next()).await?;
    Ok(findings_of(&evidence))
}
