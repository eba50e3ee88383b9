//! Writing spans, each at a place of its own in its rollout.

use fulgurite_types::Span;
use sqlx::AnyConnection;

use crate::Result;
use crate::checksums::Recorded;
use crate::database::sql::{Sql, checked_id, column, count, optional_id, plain, to_integer, to_json};
use crate::database::writer::Write;
use crate::rollouts::attempts::activity::add_counts;

/// Rows in one `INSERT`, at most.
pub(crate) const ROWS_PER_INSERT: usize = 64;

/// A span as its row holds it, in JSON.
pub(crate) fn body(span: &Span) -> Result<String> {
    to_json("span", span)
}

/// Stores a span of an existing attempt; whether the span is new.
pub(crate) async fn insert_span(write: &mut Write, span: &Span) -> Result<bool> {
    let body = body(span)?;
    let recorded = Recorded::span(&body, span.sequence_id)?;
    let new = insert_rows(write.connection(), vec![(span, body)]).await?.contains(&true);
    if new {
        add_counts(write.connection(), &span.rollout_id, &span.attempt_id, recorded).await?;
    }
    Ok(new)
}

/// Raises a rollout's next sequence id above one that was given from outside.
pub(crate) async fn raise_sequence_id(write: &mut Write, rollout_id: &str, sequence_id: u64) -> Result<()> {
    sqlx::query(
        "INSERT INTO sequence_counters (rollout_id, value) VALUES ($1, $2)
         ON CONFLICT (rollout_id) DO UPDATE SET value = excluded.value
         WHERE excluded.value > sequence_counters.value",
    )
    .bind(rollout_id)
    .bind(to_integer("sequence_id", sequence_id)?)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// The next sequence id of a rollout.
pub(crate) async fn allocate_sequence_id(write: &mut Write, rollout_id: &str) -> Result<u64> {
    allocate_sequence_ids(write, rollout_id, 1).await
}

/// The first of the next `number` sequence ids of a rollout.
pub(crate) async fn allocate_sequence_ids(write: &mut Write, rollout_id: &str, number: usize) -> Result<u64> {
    let row = sqlx::query(
        "INSERT INTO sequence_counters (rollout_id, value) VALUES ($1, $2)
         ON CONFLICT (rollout_id) DO UPDATE SET value = sequence_counters.value + excluded.value
         RETURNING value",
    )
    .bind(checked_id("rollout_id", rollout_id)?)
    .bind(to_integer("sequence_id", number)?)
    .fetch_one(write.connection())
    .await?;
    let last: u64 = count(&row, "value")?;
    Ok(last + 1 - number as u64)
}

/// How many of so many rows the next `INSERT` takes: a power of two or one and a half times that, so that there are few
/// different statements to prepare.
pub(crate) fn rows_of_insert(left: usize) -> usize {
    let power = 1 << left.ilog2();
    let more = power + power / 2;
    if more <= left { more } else { power }.min(ROWS_PER_INSERT)
}

pub(crate) fn rows_digests(rows: &[(&Span, String)]) -> Result<Vec<Recorded>> {
    rows.iter().map(|(span, body)| Recorded::span(body, span.sequence_id)).collect()
}

/// Stores spans of one attempt, each with its JSON text; which of them are new.
pub(crate) async fn insert_rows(connection: &mut AnyConnection, rows: Vec<(&Span, String)>) -> Result<Vec<bool>> {
    let Some((first, _)) = rows.first() else { return Ok(Vec::new()) };
    let first: &Span = first;
    let span_ids: Vec<&str> = rows.iter().map(|(span, _)| span.span_id.as_str()).collect();
    let mut sql = Sql::new(
        "INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, start_time,
             end_time, body) VALUES ",
    );
    for (row, (span, body)) in rows.into_iter().enumerate() {
        sql.push(if row == 0 { "(" } else { ", (" }).text(&span.rollout_id).push(", ").text(&span.attempt_id);
        sql.push(", ").text(checked_id("span_id", &span.span_id)?);
        sql.push(", ").integer(to_integer("sequence_id", span.sequence_id)?);
        sql.push(", ").text(checked_id("trace_id", &span.trace_id)?);
        sql.push(", ").optional_text(optional_id("parent_id", span.parent_id.as_deref())?);
        sql.push(", ").text(plain("name", &span.name)?).push(", ").optional_real(span.start_time);
        sql.push(", ").optional_real(span.end_time).push(", ").owned_text(body).push(")");
    }
    sql.push(" ON CONFLICT (rollout_id, attempt_id, span_id) DO NOTHING");
    let inserted = sql.execute(connection).await?;
    if inserted == span_ids.len() as u64 {
        return Ok(vec![true; span_ids.len()]);
    }
    // There are no other writes meanwhile, so the latest of the attempt's spans are the ones that were just inserted.
    let mut latest = Sql::new("SELECT span_id FROM spans WHERE rollout_id = ");
    latest.text(&first.rollout_id).push(" AND attempt_id = ").text(&first.attempt_id);
    latest.push(" ORDER BY position DESC").part(Some(inserted), 0)?;
    let mut new = vec![false; span_ids.len()];
    for row in latest.all(connection).await? {
        let span_id: &str = column(&row, "span_id")?;
        // Of several with one id, the first is the one that was stored.
        if let Some(index) = span_ids.iter().position(|id| *id == span_id) {
            new[index] = true;
        }
    }
    Ok(new)
}
