//! How far a run's judges agree with people and with each other, and what they cost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_runner::{Agreement, JudgeOnLabels, RubricOptions};
use fulgurite_store::Store;
use fulgurite_types::{ListFilter, Object, Part, RolloutStatus, Run};
use serde::Deserialize;
use serde_json::Value;

use crate::records::run_files::{JUDGEMENTS, JUDGES_ON_LABELS};

/// The latest rollouts whose judgements are compared.
const LOOKED_AT: u64 = 1000;

/// Rows of a table, a name and a text each; none of a run without a rubric.
pub(super) async fn rows(store: &Store, run: &Run, directory: &Path) -> Result<Vec<(String, String)>> {
    let Ok(rubric) = RubricOptions::deserialize(&run.config["runner"]["rubric"]) else { return Ok(Vec::new()) };
    let mut rows = on_labels(directory)?;
    if let Some(second) = &rubric.second {
        for (criterion, agreement) in of_two(store, run).await? {
            rows.push((
                format!("{} and {} on {criterion}", rubric.judge, second.judge),
                agreement_text(&agreement, "answers"),
            ));
        }
    }
    let (calls, cost) = fulgurite_runner::judges_spending(&directory.join(JUDGEMENTS))?;
    let cost = if rubric.prices.is_some() { format!(", which cost {cost:.4}") } else { String::new() };
    rows.push(("calls".to_owned(), format!("{calls}{cost}")));
    Ok(rows)
}

/// What was found before anything was run.
fn on_labels(directory: &Path) -> Result<Vec<(String, String)>> {
    let path = directory.join(JUDGES_ON_LABELS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let judged: Vec<JudgeOnLabels> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let row = |JudgeOnLabels { judge, criterion, agreement }: &JudgeOnLabels| {
        let Agreement { first_yes, second_yes, .. } = agreement;
        let wrong = format!("; yes where people say no: {first_yes}, no where they say yes: {second_yes}");
        (format!("{judge} on {criterion}"), agreement_text(agreement, "labels") + &wrong)
    };
    Ok(judged.iter().map(row).collect())
}

/// How far two judges agree on each criterion of the latest rollouts.
async fn of_two(store: &Store, run: &Run) -> Result<BTreeMap<String, Agreement>> {
    let filter = ListFilter {
        run_id: Some(run.run_id.clone()),
        rollout_status_in: Some(vec![RolloutStatus::Succeeded]),
        ..ListFilter::default()
    };
    let newest = Part::Newest { limit: Some(LOOKED_AT), sort_by: None };
    let mut all = BTreeMap::new();
    for rollout in store.queries().list_rollouts(&filter, &newest).await?.items {
        let attempt = store.attempts().get(&rollout.rollout_id, "latest").await?;
        for (criterion, agreement) in agreements(attempt.and_then(|attempt| attempt.metadata).as_ref()) {
            *all.entry(criterion).or_default() += agreement;
        }
    }
    Ok(all)
}

/// Of one attempt, by what its metadata says.
fn agreements(metadata: Option<&Object>) -> Vec<(String, Agreement)> {
    let judgements = metadata.and_then(|metadata| metadata.get("judgements")?.as_array());
    let agreement = |judgement: &Value| {
        let criterion = judgement["criterion"].as_str()?.to_owned();
        Some((criterion, Agreement::of(judgement["met"].as_bool()?, judgement["second"]["met"].as_bool()?)))
    };
    judgements.into_iter().flatten().filter_map(agreement).collect()
}

fn agreement_text(agreement: &Agreement, what: &str) -> String {
    let share = agreement.share().map_or(String::new(), |share| format!("agree on {share:.3} of "));
    let kappa = agreement.kappa().map_or(String::new(), |kappa| format!(", kappa {kappa:.2}"));
    format!("{share}{} {what}{kappa}", agreement.count())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_both_have_judged_is_compared() {
        let metadata = json!({ "judgements": [
            { "criterion": "a", "met": true, "second": { "met": false, "reason": "r" } },
            { "criterion": "b", "met": true },
            { "criterion": "c", "met": true, "second": { "failed": "why" } },
        ] });
        let found = agreements(metadata.as_object());
        assert_eq!(found, [("a".to_owned(), Agreement::of(true, false))]);
        assert!(agreements(None).is_empty());
        assert_eq!(agreement_text(&Agreement::of(true, false), "labels"), "agree on 0.000 of 1 labels, kappa 0.00");
    }
}
