//! Rollouts as rows: reading and finding them.

use fulgurite_types::{Object, Rollout, RolloutFilter};
use serde_json::Value;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{Conditions, SortField, Sql, column, json, optional_json, optional_word, word};
use crate::{Result, StoreError};

/// Ids in one `IN (..)`; the database takes some more.
pub(crate) const IDS_PER_QUERY: usize = 10_000;

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("rollout_id"),
    SortField::text("input"),
    SortField::time("start_time"),
    SortField::time("end_time"),
    SortField::text("mode"),
    SortField::text("resources_id"),
    SortField::text("status"),
    SortField::text("config"),
    SortField::text("metadata"),
];

pub(crate) fn push_conditions(sql: &mut Sql, filter: &RolloutFilter) -> Result<()> {
    sql.push(" WHERE 1 = 1");
    if let Some(run_id) = &filter.run_id {
        sql.push(" AND run_id = ").text(run_id);
    }
    if let Some(step) = filter.step {
        sql.push(" AND step = ").integer(step);
    }
    if let Some(mode) = filter.mode {
        sql.push(" AND mode = ").text(mode.as_str());
    }
    if filter.without_sessions {
        // As `NewRollout::session` is written; a session has no other key before it.
        sql.push(r#" AND (metadata IS NULL OR substr(metadata, 1, 17) <> '{"kind":"session"')"#);
    }
    let mut conditions = Conditions::new(filter.filter_logic);
    if let Some(statuses) = &filter.status_in {
        conditions.one_of(sql, "status", statuses.iter().map(|status| status.as_str()));
        let finished = statuses.iter().filter(|status| status.is_finished()).count();
        // Redundant, but it selects the index that holds them all.
        match finished {
            0 => drop(sql.push(" AND end_time IS NULL")),
            all if all == statuses.len() => drop(sql.push(" AND end_time IS NOT NULL")),
            _ => {}
        }
    }
    if let Some(ids) = &filter.rollout_id_in {
        conditions.one_of(sql, "rollout_id", ids.iter().map(String::as_str));
    }
    if let Some(part) = &filter.rollout_id_contains {
        conditions.contains(sql, "rollout_id", part);
    }
    conditions.close(sql);
    Ok(())
}

pub(crate) fn rollout_from_row(row: &AnyRow) -> Result<Rollout> {
    Ok(Rollout {
        rollout_id: column(row, "rollout_id")?,
        input: json(row, "input")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        mode: optional_word(row, "mode")?,
        resources_id: column(row, "resources_id")?,
        status: word(row, "status")?,
        config: json(row, "config")?,
        metadata: optional_json(row, "metadata")?,
    })
}

pub(crate) async fn find_rollout(connection: &mut AnyConnection, rollout_id: &str) -> Result<Option<Rollout>> {
    let row =
        sqlx::query("SELECT * FROM rollouts WHERE rollout_id = $1").bind(rollout_id).fetch_optional(connection).await?;
    row.as_ref().map(rollout_from_row).transpose()
}

pub(crate) async fn existing_rollout(connection: &mut AnyConnection, rollout_id: &str) -> Result<Rollout> {
    find_rollout(connection, rollout_id).await?.ok_or_else(|| StoreError::not_found("rollout", rollout_id))
}

/// The training run and step in a rollout's metadata.
pub(crate) fn run_and_step(metadata: Option<&Object>) -> (Option<&str>, Option<i64>) {
    let value = |key| metadata.and_then(|metadata| metadata.get(key));
    (value("run_id").and_then(Value::as_str), value("step").and_then(Value::as_i64))
}
