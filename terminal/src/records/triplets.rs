//! Triplets in a table, and why spans are none.

use fulgurite_agentlightning::{PassedOver, Triplet, TripletReport};
use serde_json::{Value, json};

use super::generations::logprob;
use crate::table::Columns;

/// The header of a table of triplets.
pub const COLUMNS: [&str; 7] = ["rollout", "attempt", "response", "prompt", "sampled", "logprob", "reward"];

/// A triplet as a row of the table.
pub fn row(triplet: &Triplet) -> Vec<String> {
    vec![
        triplet.metadata.rollout_id.clone(),
        triplet.metadata.attempt_id.clone(),
        triplet.metadata.response_id.clone().unwrap_or_default(),
        format!("{} tokens", triplet.prompt.token_ids.len()),
        format!("{} tokens", triplet.response.token_ids.len()),
        logprob(triplet.response.logprobs.as_deref()),
        triplet.reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
    ]
}

/// Why a rollout has the triplets that it has, for people; without a report no runner has taken it.
pub fn reason_lines(rollout_id: &str, report: Option<&TripletReport>) -> Vec<String> {
    let Some(report) = report else {
        return vec![format!("\n{rollout_id}: No attempt yet: no runner has taken it.")];
    };
    let mut lines = vec![format!("\n{rollout_id}: {}", report.explain())];
    if report.passed_over.is_empty() {
        return lines;
    }
    let mut table = Columns::new(&["seq", "span", "name", "why it is no triplet"]);
    for passed in &report.passed_over {
        table.push(vec![
            passed.sequence_id.to_string(),
            passed.span_id.clone(),
            passed.name.clone(),
            passed.to_string(),
        ]);
    }
    lines.extend(table.lines());
    lines
}

/// The same for programs: an object for each span that is no triplet, told apart by its `reason`.
pub fn reasons_json(rollout_id: &str, report: &TripletReport) -> Vec<Value> {
    let object = |passed: &PassedOver| {
        let PassedOver { span_id, name, sequence_id, reason, detail } = passed;
        json!({
            "rollout_id": rollout_id, "span_id": span_id, "name": name, "sequence_id": sequence_id, "reason": reason,
            "detail": detail,
        })
    };
    report.passed_over.iter().map(object).collect()
}
