//! What a page tells of a run, read from its store.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::{ListFilter, Part, Rollout, RolloutMode, RolloutStatus, Run};

use super::html::{ReportedRun, Transcript};
use super::judges;
use super::transcripts::transcript_of;
use super::what_changed::changed_answers;
use crate::doctor;
use crate::runs::{lines, registry};

/// The latest training rollouts among which the best and the worst are looked for.
const LOOKED_AT: u64 = 128;
/// Of each, so many are shown.
const SHOWN: usize = 3;
/// Failed rollouts whose causes are counted.
const FAILED: u64 = 1000;

/// All that a page tells of the run in a directory.
pub async fn reported(directory: &Path) -> Result<ReportedRun> {
    let entry = registry::of_directory(directory, None).await?;
    let (store, run) = registry::open(directory).await?;
    let steps = store.steps(&run.run_id).await?;
    let mut transcripts = transcripts(&store, &run).await?;
    transcripts.sort_by(|one, other| other.reward.total_cmp(&one.reward));
    let rest = transcripts.split_off(transcripts.len().min(SHOWN));
    let mut worst: Vec<Transcript> = rest.into_iter().rev().take(SHOWN).collect();
    worst.sort_by(|one, other| one.reward.total_cmp(&other.reward));
    let findings = doctor::findings_of(&store, &run).await?;
    Ok(ReportedRun {
        name: entry.run_id.clone(),
        facts: lines(&entry).into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ledger: entry.tokens.by_cause.clone(),
        steps: steps.into_iter().filter_map(|step| step.metrics.as_object().cloned()).collect(),
        findings: findings
            .into_iter()
            .map(|found| (found.name.to_owned(), format!("{}. What to do: {}", found.evidence, found.what_to_do)))
            .collect(),
        failures: failures(&store, &run).await?,
        judges: judges::rows(&store, &run, directory).await?,
        changed: changed_answers(&store, &run).await?,
        best: transcripts,
        worst,
        config: run.config,
    })
}

async fn rollouts(store: &Store, filter: ListFilter, limit: u64) -> Result<Vec<Rollout>> {
    Ok(store.list_rollouts(&filter, &Part::Newest { limit: Some(limit), sort_by: None }).await?.items)
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
        let attempt = store.get_attempt(&rollout.rollout_id, "latest").await?;
        let why = attempt.map_or("no attempt was made".to_owned(), |attempt| {
            attempt.failure_cause().unwrap_or_else(|| format!("the attempt ended as {}", attempt.status.as_str()))
        });
        *failures.entry(why).or_insert(0) += 1;
    }
    Ok(failures)
}
