//! Violations that are found by parsing a row.

use fulgurite_types::Object;
use serde_json::Value;
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::sql::{column, count, json, optional_json};
use crate::rollouts::attempts::rows::attempt_from_row;
use crate::rollouts::rows::{rollout_from_row, run_and_step};
use crate::spans::rows::span_from_row;

/// A table whose rows are read one by one.
pub(super) struct Table {
    pub name: &'static str,
    /// Every row, with a `position` that no other row of the table has.
    pub select: &'static str,
    pub id: &'static str,
    pub read: fn(&AnyRow) -> std::result::Result<(), String>,
}

pub(super) const TABLES: &[Table] = &[
    Table { name: "rollouts", select: "SELECT * FROM rollouts", id: "rollout_id", read: read_rollout },
    Table {
        name: "attempts",

        select: "SELECT attempts.*, ROW_NUMBER() OVER (ORDER BY rollout_id, attempt_id) AS position FROM attempts",
        id: "rollout_id || '/' || attempt_id",
        read: read_attempt,
    },
    Table {
        name: "spans",

        select: "SELECT * FROM spans",
        id: "rollout_id || '/' || attempt_id || '/' || span_id",
        read: read_span,
    },
    Table { name: "resources", select: "SELECT * FROM resources", id: "resources_id", read: read_resources },
    Table { name: "workers", select: "SELECT * FROM workers", id: "worker_id", read: read_worker },
    Table { name: "runs", select: "SELECT * FROM runs", id: "run_id", read: read_run },
    Table {
        name: "steps",

        select: "SELECT steps.*, ROW_NUMBER() OVER (ORDER BY run_id, step) AS position FROM steps",
        id: "run_id",
        read: read_step,
    },
    Table {
        name: "checkpoints",

        select: "SELECT checkpoints.*, ROW_NUMBER() OVER (ORDER BY run_id, step) AS position FROM checkpoints",
        id: "run_id",
        read: read_checkpoint,
    },
];

fn error_text<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| error.to_string())
}

pub(super) fn read_rollout(row: &AnyRow) -> std::result::Result<(), String> {
    let rollout = error_text(rollout_from_row(row))?;
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    let stored: (Option<String>, Option<i64>) = (error_text(column(row, "run_id"))?, error_text(column(row, "step"))?);
    if (stored.0.as_deref(), stored.1) == (run_id, step) {
        Ok(())
    } else {
        Err("run_id and step are not those of its metadata".to_owned())
    }
}

pub(super) fn read_attempt(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(attempt_from_row(row)).map(|_| ())
}

/// A span's columns are copies of fields of its body.
fn read_span(row: &AnyRow) -> std::result::Result<(), String> {
    let span = error_text(span_from_row(row))?;
    let text = |name| error_text(column::<Option<String>>(row, name));
    let real = |name| error_text(column::<Option<f64>>(row, name));
    let sequence_id: u64 = error_text(count(row, "sequence_id"))?;
    let same = [
        ("rollout_id", text("rollout_id")?.as_ref() == Some(&span.rollout_id)),
        ("attempt_id", text("attempt_id")?.as_ref() == Some(&span.attempt_id)),
        ("span_id", text("span_id")?.as_ref() == Some(&span.span_id)),
        ("trace_id", text("trace_id")?.as_ref() == Some(&span.trace_id)),
        ("parent_id", text("parent_id")? == span.parent_id),
        ("name", text("name")?.as_ref() == Some(&span.name)),
        ("sequence_id", sequence_id == span.sequence_id),
        ("start_time", real("start_time")? == span.start_time),
        ("end_time", real("end_time")? == span.end_time),
    ];
    match same.iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{name} is not that of its body")),
    }
}

fn read_resources(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(json::<Object>(row, "resources")).map(|_| ())
}

fn read_worker(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(optional_json::<Object>(row, "heartbeat_stats")).map(|_| ())
}

fn read_run(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(json::<Value>(row, "config")).map(|_| ())
}

fn read_step(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(json::<Value>(row, "metrics")).map(|_| ())
}

fn read_checkpoint(row: &AnyRow) -> std::result::Result<(), String> {
    error_text(json::<Value>(row, "state")).map(|_| ())
}
