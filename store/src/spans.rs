//! Spans: storing, finding, and their sequence ids.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::attempts::{existing_attempt, find_attempt, hear_of};
use crate::generations::{generations_of_spans, span_attributes};
use crate::model::{
    AttemptRef, FilterLogic, Object, Paginated, Span, SpanContext, SpanEvent, SpanFilter, SpanLink, SpanResource,
    SpanStatus,
};
use crate::sql::{Conditions, SortField, Sql, column, count, json, to_integer, to_json};
use crate::writer::Write;
use crate::{Result, Store};

const SORT_FIELDS: &[SortField] = &[
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

/// The part of a span that has no columns of its own.
#[derive(Serialize, Deserialize)]
struct Body<'s> {
    status: Cow<'s, SpanStatus>,
    attributes: Cow<'s, Object>,
    events: Cow<'s, [SpanEvent]>,
    links: Cow<'s, [SpanLink]>,
    context: Cow<'s, Option<SpanContext>>,
    parent: Cow<'s, Option<SpanContext>>,
    resource: Cow<'s, SpanResource>,
    extra: Cow<'s, Object>,
}

impl Store {
    /// Stores spans and notes that their attempts have been heard of. A span that is there already is left as it is,
    /// and `None` stands in its place. All are stored, or none.
    pub async fn add_spans(&self, spans: Vec<Span>) -> Result<Vec<Option<Span>>> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |write| {
            Box::pin(async move {
                let mut stored = Vec::with_capacity(spans.len());
                for span in spans {
                    let attempt = AttemptRef::Id(span.attempt_id.clone());
                    existing_attempt(write.connection(), &span.rollout_id, &attempt).await?;
                    stored.push(if insert_span(write, &span).await? {
                        raise_sequence_id(write, &span.rollout_id, span.sequence_id).await?;
                        hear_of(write, &span.rollout_id, &span.attempt_id).await?;
                        Some(span)
                    } else {
                        None
                    });
                }
                Ok(stored)
            })
        })
        .await
    }

    /// Spans of a rollout that meet a filter; none if the rollout is not known. The span of a generation gets its
    /// tokens and logprobs as attributes: `prompt_token_ids`, `response_token_ids` and, as JSON text in OpenAI's
    /// shape, `logprobs.content`.
    pub async fn query_spans(&self, filter: &SpanFilter) -> Result<Paginated<Span>> {
        let mut connection = self.reader().await?;
        let attempt_id = match &filter.attempt {
            None => None,
            Some(AttemptRef::Id(id)) => Some(id.clone()),
            Some(AttemptRef::Latest) => {
                match find_attempt(&mut connection, &filter.rollout_id, &AttemptRef::Latest).await? {
                    Some(attempt) => Some(attempt.attempt_id),
                    // A condition that nothing meets.
                    None => Some(String::new()),
                }
            }
        };
        let mut total = Sql::new("SELECT COUNT(*) FROM spans");
        push_conditions(&mut total, filter, attempt_id.as_deref());
        let mut page = Sql::new("SELECT * FROM spans");
        push_conditions(&mut page, filter, attempt_id.as_deref());
        let mut part = filter.page.clone();
        part.sort_by.get_or_insert_with(|| "sequence_id".to_owned());
        page.page(&part, SORT_FIELDS)?;
        let total = total.total(&mut connection).await?;
        let mut items: Vec<Span> = page.all(&mut connection).await?.iter().map(span_from_row).collect::<Result<_>>()?;
        add_tokens(&mut connection, &mut items).await?;
        Ok(Paginated {
            items,
            limit: filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: filter.page.offset,
            total,
        })
    }

    /// The next number in the order of a rollout's spans, starting at 1; never given twice. The rollout need not be
    /// known.
    pub async fn next_sequence_id(&self, rollout_id: &str) -> Result<u64> {
        let rollout_id = rollout_id.to_owned();
        self.write(move |write| Box::pin(async move { allocate_sequence_id(write, &rollout_id).await })).await
    }
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

fn span_from_row(row: &AnyRow) -> Result<Span> {
    let body: Body = json(row, "body")?;
    Ok(Span {
        rollout_id: column(row, "rollout_id")?,
        attempt_id: column(row, "attempt_id")?,
        sequence_id: count(row, "sequence_id")?,
        trace_id: column(row, "trace_id")?,
        span_id: column(row, "span_id")?,
        parent_id: column(row, "parent_id")?,
        name: column(row, "name")?,
        status: body.status.into_owned(),
        attributes: body.attributes.into_owned(),
        events: body.events.into_owned(),
        links: body.links.into_owned(),
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        context: body.context.into_owned(),
        parent: body.parent.into_owned(),
        resource: body.resource.into_owned(),
        extra: body.extra.into_owned(),
    })
}

/// Gives the spans of generations their tokens as attributes.
async fn add_tokens(connection: &mut AnyConnection, spans: &mut [Span]) -> Result<()> {
    let generations = generations_of_spans(connection, spans).await?;
    let by_span: HashMap<_, _> = generations
        .iter()
        .map(|generation| ((generation.attempt_id.as_str(), generation.span_id.as_str()), generation))
        .collect();
    for span in spans {
        if let Some(generation) = by_span.get(&(span.attempt_id.as_str(), span.span_id.as_str())) {
            span.attributes.extend(span_attributes(generation));
        }
    }
    Ok(())
}

/// Stores a span of an attempt that is there; whether the span is new.
pub(crate) async fn insert_span(write: &mut Write, span: &Span) -> Result<bool> {
    let body = Body {
        status: Cow::Borrowed(&span.status),
        attributes: Cow::Borrowed(&span.attributes),
        events: Cow::Borrowed(&span.events),
        links: Cow::Borrowed(&span.links),
        context: Cow::Borrowed(&span.context),
        parent: Cow::Borrowed(&span.parent),
        resource: Cow::Borrowed(&span.resource),
        extra: Cow::Borrowed(&span.extra),
    };
    let inserted = sqlx::query(
        "INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, start_time,
             end_time, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (rollout_id, attempt_id, span_id) DO NOTHING",
    )
    .bind(span.rollout_id.as_str())
    .bind(span.attempt_id.as_str())
    .bind(span.span_id.as_str())
    .bind(to_integer("sequence_id", span.sequence_id)?)
    .bind(span.trace_id.as_str())
    .bind(span.parent_id.as_deref())
    .bind(span.name.as_str())
    .bind(span.start_time)
    .bind(span.end_time)
    .bind(to_json("span", &body)?)
    .execute(write.connection())
    .await?
    .rows_affected();
    Ok(inserted > 0)
}

/// Lets a rollout's sequence ids go on after one that was given from outside.
async fn raise_sequence_id(write: &mut Write, rollout_id: &str, sequence_id: u64) -> Result<()> {
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
    let row = sqlx::query(
        "INSERT INTO sequence_counters (rollout_id, value) VALUES ($1, 1)
         ON CONFLICT (rollout_id) DO UPDATE SET value = sequence_counters.value + 1
         RETURNING value",
    )
    .bind(rollout_id)
    .fetch_one(write.connection())
    .await?;
    count(&row, "value")
}
