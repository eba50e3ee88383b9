//! `GET /metrics` after some traffic, and what the documentation says of it.

use std::collections::BTreeMap;

use serde_json::json;

use crate::common::Server;
use crate::page::{Metric, Page};

/// The rows of the table in `docs/metrics.md`.
fn documented() -> BTreeMap<String, Metric> {
    let text = include_str!("../../docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, help] = cells[..] else { panic!("not four cells: {row}") };
        let labels = labels.split_terminator(", ").map(|label| label.trim_matches('`').to_owned()).collect();
        (name.trim_matches('`').to_owned(), Metric { kind: kind.to_owned(), help: help.to_owned(), labels })
    })
    .collect()
}

/// The table as it would be right.
fn table(metrics: &BTreeMap<String, Metric>) -> String {
    let row = |(name, metric): (&String, &Metric)| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {} | {} | {} |\n", metric.kind, labels.join(", "), metric.help).replace("|  |", "| |")
    };
    metrics.iter().map(row).collect()
}

#[test]
fn every_metric_is_documented_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    server.enqueue([json!(1)], &json!({}));
    server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    let page = Page::of(&server);
    assert_eq!(documented(), page.metrics, "docs/metrics.md should say:\n{}", table(&page.metrics));
    assert_eq!(page.sum("fulgurite_rollout_queue_seconds_count", &[]), 1.0);
    let transactions = page.sum("fulgurite_store_transaction_seconds_count", &[]);
    assert!(transactions >= 2.0);
    assert!(page.sum("fulgurite_store_transaction_writes_sum", &[]) >= transactions);
    assert_eq!(page.sum("fulgurite_store_commit_seconds_bucket", &[("le", "+Inf")]), transactions);
}
