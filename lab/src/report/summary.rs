//! The summary of a run in a report, read from its directory.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::{ListFilter, Part, Rollout, RolloutMode, RolloutStatus, Run};
use serde::Serialize;

use super::judges;
use super::transcripts::{Transcript, transcript_of};
use crate::runs::{lines, registry};

/// The latest training rollouts among which the best and the worst are looked for.
const LOOKED_AT: u64 = 128;
/// Of each, so many are shown.
const SHOWN: usize = 3;
/// Failed rollouts whose causes are counted.
const FAILED: u64 = 1000;

/// What a report says of a run, beyond what a server answers about it.
#[derive(Serialize)]
pub struct ReportSummary {
    /// How the run went, name by name.
    facts: Vec<(&'static str, String)>,
    /// How far its judges agree with people and with each other, and what they cost.
    judges: Vec<(String, String)>,
    /// Failed rollouts, by their cause.
    failures: BTreeMap<String, u64>,
    /// The rollouts that earned most.
    best: Vec<Transcript>,
    /// The rollouts that earned least.
    worst: Vec<Transcript>,
}

/// Summarises the run in a directory, whose store is open.
pub async fn summary_of(store: &Store, run: &Run, directory: &Path) -> Result<ReportSummary> {
    let entry = registry::of_directory(directory, None).await?;
    let mut best = transcripts(store, run).await?;
    best.sort_by(|one, other| other.reward.total_cmp(&one.reward));
    let rest = best.split_off(best.len().min(SHOWN));
    let mut worst: Vec<Transcript> = rest.into_iter().rev().take(SHOWN).collect();
    worst.sort_by(|one, other| one.reward.total_cmp(&other.reward));
    Ok(ReportSummary {
        facts: lines(&entry),
        judges: judges::rows(store, run, directory).await?,
        failures: failures(store, run).await?,
        best,
        worst,
    })
}

async fn rollouts(store: &Store, filter: ListFilter, limit: u64) -> Result<Vec<Rollout>> {
    Ok(store.queries().list_rollouts(&filter, &Part::Newest { limit: Some(limit), sort_by: None }).await?.items)
}

async fn transcripts(store: &Store, run: &Run) -> Result<Vec<Transcript>> {
    let filter = ListFilter {
        run_id: Some(run.run_id.clone()),
        mode: (run.config["kind"] != "evaluation").then_some(RolloutMode::Train),
        rollout_status_in: Some(vec![RolloutStatus::Succeeded]),
        ..ListFilter::default()
    };
    let mut transcripts = Vec::new();
    for rollout in rollouts(store, filter, LOOKED_AT).await? {
        transcripts.extend(transcript_of(store, run, &rollout).await?);
    }
    Ok(transcripts)
}

/// Rollouts that failed, by what their last attempts say.
async fn failures(store: &Store, run: &Run) -> Result<BTreeMap<String, u64>> {
    let filter = ListFilter {
        run_id: Some(run.run_id.clone()),
        rollout_status_in: Some(vec![RolloutStatus::Failed]),
        ..ListFilter::default()
    };
    let mut failures = BTreeMap::new();
    for rollout in rollouts(store, filter, FAILED).await? {
        let attempt = store.attempts().get(&rollout.rollout_id, "latest").await?;
        let why = attempt.map_or("no attempt was made".to_owned(), |attempt| {
            attempt.failure_cause().unwrap_or_else(|| format!("the attempt ended as {}", attempt.status.as_str()))
        });
        *failures.entry(why).or_insert(0) += 1;
    }
    Ok(failures)
}
