//! Spans as rows: which of them meet a filter, and reading one.

use fulgurite_types::{AttemptRef, FilterLogic, Span, SpanFilter};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::sql::{Conditions, SortField, Sql, json};
use crate::rollouts::attempts::rows::find_attempt;

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("rollout_id"),
    SortField::text("attempt_id"),
    SortField::number("sequence_id"),
    SortField::text("trace_id"),
    SortField::text("span_id"),
    SortField::text("parent_id"),
    SortField::text("name"),
    SortField::time("start_time"),
    SortField::time("end_time"),
];

/// Spans as they are stored.
pub(crate) const STORED: &str = "(SELECT *, NULL AS raw_of FROM spans) AS spans";

/// The attempt of a filter; a filter without a latest attempt gets an empty name, which matches nothing.
pub(crate) async fn attempt_condition(connection: &mut AnyConnection, filter: &SpanFilter) -> Result<Option<String>> {
    match &filter.attempt {
        None => Ok(None),
        Some(AttemptRef::Id(id)) => Ok(Some(id.clone())),
        Some(AttemptRef::Latest) => {
            let latest = find_attempt(connection, &filter.rollout_id, &AttemptRef::Latest).await?;
            Ok(Some(latest.map_or_else(String::new, |attempt| attempt.attempt_id)))
        }
    }
}

/// `select` from `source`, the rows of a page in their order.
pub(crate) fn wanted(select: &str, source: &str, filter: &SpanFilter, attempt_id: Option<&str>) -> Result<Sql> {
    let mut sql = Sql::new(select);
    sql.push(source);
    push_conditions(&mut sql, filter, attempt_id);
    let mut page = filter.page.clone();
    page.sort_by.get_or_insert_with(|| "sequence_id".to_owned());
    sql.page(&page, SORT_FIELDS)?;
    Ok(sql)
}

/// How many spans meet a filter, of which its page has `found`.
pub(crate) async fn total(
    connection: &mut AnyConnection,
    source: &str,
    filter: &SpanFilter,
    attempt_id: Option<&str>,
    found: usize,
) -> Result<u64> {
    if filter.page.limit.is_none() && filter.page.offset == 0 {
        return Ok(found as u64);
    }
    let mut sql = Sql::new("SELECT COUNT(*) FROM ");
    sql.push(source);
    push_conditions(&mut sql, filter, attempt_id);
    sql.total(connection).await
}

fn push_conditions(sql: &mut Sql, filter: &SpanFilter, attempt_id: Option<&str>) {
    sql.push(" WHERE rollout_id = ").text(&filter.rollout_id);
    if let Some(attempt_id) = attempt_id {
        sql.push(" AND attempt_id = ").text(attempt_id);
    }
    let mut conditions = Conditions::new(filter.filter_logic);
    for (column, text) in [
        ("trace_id", &filter.trace_id),
        ("span_id", &filter.span_id),
        ("parent_id", &filter.parent_id),
        ("name", &filter.name),
    ] {
        conditions.text(sql, column, text);
    }
    if !conditions.close(sql) && filter.filter_logic == Some(FilterLogic::Or) {
        sql.push(" AND 1 = 0");
    }
}

/// Reads a span as it was given.
pub(crate) fn span_from_row(row: &AnyRow) -> Result<Span> {
    json(row, "body")
}
