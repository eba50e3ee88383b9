//! Spans: storing, finding, and their sequence ids.

use std::collections::HashMap;
use std::hash::Hash;

use fulgurite_types::{AttemptRef, FilterLogic, IncomingSpan, Ingested, Paginated, Span, SpanFilter};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::attempts::{count_in, existing_attempt, find_attempt, hear_of};
use crate::checksums::Recorded;
use crate::generation_spans::{WITH_RAW_SPANS, add_tokens, wire_span_from_row};
use crate::reward_rights::{Sender, settle, speaks_of_reward};
use crate::sql::{Conditions, SortField, Sql, column, count, json, optional_plain, plain, to_integer, to_json};
use crate::writer::Write;
use crate::{Result, Store};

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

/// Rows in one `INSERT`, at most.
const ROWS_PER_INSERT: usize = 64;

impl Store {
    /// Stores spans and notes that their attempts have been heard of. Gives each as JSON text; a span that is there
    /// already is left as it is, and `None` stands in its place. All are stored, or none.
    pub async fn add_spans(&self, spans: Vec<Span>) -> Result<Vec<Option<String>>> {
        self.add_spans_of(Sender::Server, spans).await
    }

    /// As [`Store::add_spans`]. A reward in a span counts if the sender may give it, and is set aside in the span if
    /// not.
    pub async fn add_spans_of(&self, sender: Sender, mut spans: Vec<Span>) -> Result<Vec<Option<String>>> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        // Here, and not where one job at a time is done.
        let mut bodies: Vec<String> = spans.iter().map(body).collect::<Result<_>>()?;
        let with_rewards: Vec<bool> = spans.iter().map(speaks_of_reward).collect();
        self.write(move |write| {
            Box::pin(async move {
                let mut stored = vec![false; spans.len()];
                for indices in grouped(&spans, attempt_key) {
                    let (rollout_id, attempt_id) = attempt_key(&spans[indices[0]]);
                    let rollout_id = rollout_id.to_owned();
                    let attempt = AttemptRef::Id(attempt_id.to_owned());
                    let attempt = existing_attempt(write.connection(), &rollout_id, &attempt).await?;
                    for index in indices.iter().copied().filter(|index| with_rewards[*index]) {
                        settle(write.connection(), &attempt, &sender, &mut spans[index]).await?;
                        bodies[index] = body(&spans[index])?;
                    }
                    let body = |index: usize| Ok(bodies[index].clone());
                    insert_of_attempt(write, &spans, body, &indices, &mut stored).await?;
                    let new = indices.iter().filter(|index| stored[**index]).map(|index| spans[*index].sequence_id);
                    if let Some(last) = new.max() {
                        raise_sequence_id(write, &rollout_id, last).await?;
                    }
                }
                Ok(bodies.into_iter().zip(stored).map(|(body, stored)| stored.then_some(body)).collect())
            })
        })
        .await
    }

    /// Stores what tracers send, in bulk: as [`Store::add_spans`], but a span of an unknown attempt is passed over
    /// alone, and a span without a place in its rollout gets the next, in the given order. Tells the fate of each.
    pub async fn ingest_spans(&self, spans: Vec<IncomingSpan>) -> Result<Vec<Ingested>> {
        self.ingest_spans_of(Sender::Server, spans).await
    }

    /// As [`Store::ingest_spans`], with rewards as in [`Store::add_spans_of`].
    pub async fn ingest_spans_of(&self, sender: Sender, spans: Vec<IncomingSpan>) -> Result<Vec<Ingested>> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let with_rewards: Vec<bool> = spans.iter().map(|incoming| speaks_of_reward(&incoming.span)).collect();
        self.write(move |write| Box::pin(async move { ingest(write, &sender, spans, &with_rewards).await })).await
    }

    /// Spans of a rollout that meet a filter; none if the rollout is not known. The span of a generation gets its
    /// tokens and logprobs as attributes: `prompt_token_ids`, `response_token_ids` and, as JSON text in OpenAI's
    /// shape, `logprobs.content`. So does every other span of its attempt that names it as `gen_ai.response.id`, as an
    /// agent's own tracer writes it, and lacks them.
    pub async fn query_spans(&self, filter: &SpanFilter) -> Result<Paginated<Span>> {
        let mut connection = self.reader().await?;
        query_in(STORED, &mut connection, filter).await
    }

    /// The same as JSON text and as Agent-lightning's readers expect it, for whom every call has a second span (see
    /// `generation_spans`). Where no generation is among the spans, they pass through as they are stored.
    pub async fn query_spans_as_json(&self, filter: &SpanFilter) -> Result<String> {
        let mut connection = self.reader().await?;
        let generations = sqlx::query("SELECT 1 FROM generations WHERE rollout_id = $1 LIMIT 1")
            .bind(filter.rollout_id.as_str())
            .fetch_optional(&mut *connection)
            .await?;
        if generations.is_some() {
            return to_json("spans", &query_in(WITH_RAW_SPANS, &mut connection, filter).await?);
        }
        let attempt_id = attempt_condition(&mut connection, filter).await?;
        // The ordered page is made first; both databases then join it in that order.
        let page = page_of_bodies(STORED, filter, attempt_id.as_deref())?
            .inside("SELECT COUNT(*) AS found, COALESCE(string_agg(body, ','), '') AS items FROM (", ") AS page");
        let row = page.one(&mut connection).await?;
        let total = total(&mut connection, STORED, filter, attempt_id.as_deref(), count(&row, "found")?).await?;
        let limit = filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?;
        let (items, offset): (&str, _) = (column(&row, "items")?, filter.page.offset);
        Ok(format!(r#"{{"items":[{items}],"limit":{limit},"offset":{offset},"total":{total}}}"#))
    }

    /// The next number in the order of a rollout's spans, starting at 1; never given twice. The rollout need not be
    /// known.
    pub async fn next_sequence_id(&self, rollout_id: &str) -> Result<u64> {
        let rollout_id = rollout_id.to_owned();
        self.write(move |write| Box::pin(async move { allocate_sequence_id(write, &rollout_id).await })).await
    }
}

/// Spans as they are stored.
pub(crate) const STORED: &str = "(SELECT *, NULL AS raw_of FROM spans) AS spans";

/// A page of the spans of `source`, which has their columns and `raw_of`.
async fn query_in(source: &str, connection: &mut AnyConnection, filter: &SpanFilter) -> Result<Paginated<Span>> {
    let attempt_id = attempt_condition(connection, filter).await?;
    let page = page_of_bodies(source, filter, attempt_id.as_deref())?;
    let mut items: Vec<Span> = page.all(connection).await?.iter().map(wire_span_from_row).collect::<Result<_>>()?;
    add_tokens(connection, &mut items).await?;
    Ok(Paginated {
        total: total(connection, source, filter, attempt_id.as_deref(), items.len()).await?,
        items,
        limit: filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
        offset: filter.page.offset,
    })
}

/// The attempt that a filter asks for; one without a name, which nothing meets, if there is no latest one.
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

fn page_of_bodies(source: &str, filter: &SpanFilter, attempt_id: Option<&str>) -> Result<Sql> {
    wanted("SELECT body, raw_of FROM ", source, filter, attempt_id)
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

/// Rollout id and attempt id.
fn attempt_key(span: &Span) -> (&str, &str) {
    (&span.rollout_id, &span.attempt_id)
}

/// Places of the spans of each key, the keys in the order of their first spans.
fn grouped<'s, K: Copy + Eq + Hash>(spans: &'s [Span], key: impl Fn(&'s Span) -> K) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut latest = None;
    for (index, span) in spans.iter().enumerate() {
        let key = key(span);
        let place = match latest {
            // Most often the span before has the same key, and nothing need be looked up.
            Some((of, place)) if of == key => place,
            _ => *places.entry(key).or_insert(groups.len()),
        };
        latest = Some((key, place));
        match groups.get_mut(place) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

async fn ingest(
    write: &mut Write,
    sender: &Sender,
    incoming: Vec<IncomingSpan>,
    with_rewards: &[bool],
) -> Result<Vec<Ingested>> {
    let (mut spans, given): (Vec<Span>, Vec<Option<u64>>) =
        incoming.into_iter().map(|incoming| (incoming.span, incoming.sequence_id)).unzip();
    let mut known = vec![false; spans.len()];
    let mut of_attempts = grouped(&spans, attempt_key);
    for indices in &of_attempts {
        let (rollout_id, attempt_id) = attempt_key(&spans[indices[0]]);
        let attempt = AttemptRef::Id(attempt_id.to_owned());
        let Some(attempt) = find_attempt(write.connection(), rollout_id, &attempt).await? else { continue };
        for index in indices.iter().copied() {
            known[index] = true;
            if with_rewards[index] {
                settle(write.connection(), &attempt, sender, &mut spans[index]).await?;
            }
        }
    }
    number(write, &mut spans, &given, &known).await?;
    let mut stored = vec![false; spans.len()];
    of_attempts.retain(|indices| known[indices[0]]);
    for indices in &of_attempts {
        insert_of_attempt(write, &spans, |index| body(&spans[index]), indices, &mut stored).await?;
    }
    let fate = |(span, (known, stored)): (Span, (bool, bool))| match (known, stored) {
        (false, _) => Ingested::UnknownAttempt(Box::new(span)),
        (true, false) => Ingested::Duplicate,
        (true, true) => Ingested::Stored { sequence_id: span.sequence_id },
    };
    Ok(spans.into_iter().zip(known.into_iter().zip(stored)).map(fate).collect())
}

/// Gives every span of a known attempt its place: the given one, or the next of its rollout.
async fn number(write: &mut Write, spans: &mut [Span], given: &[Option<u64>], known: &[bool]) -> Result<()> {
    for mut indices in grouped(spans, |span| span.rollout_id.as_str()) {
        indices.retain(|index| known[*index]);
        let Some(first) = indices.first() else { continue };
        let rollout_id = spans[*first].rollout_id.clone();
        let unnumbered = indices.iter().filter(|index| given[**index].is_none()).count();
        let mut next = match unnumbered {
            0 => 0,
            number => allocate_sequence_ids(write, &rollout_id, number).await?,
        };
        for index in &indices {
            spans[*index].sequence_id = given[*index].unwrap_or_else(|| {
                next += 1;
                next - 1
            });
        }
        if let Some(last) = indices.iter().filter_map(|index| given[*index]).max() {
            raise_sequence_id(write, &rollout_id, last).await?;
        }
    }
    Ok(())
}

/// Stores those of `spans` that `indices` name, all of one attempt that is there, and notes which are new. `body` tells
/// the JSON text of the span with an index.
async fn insert_of_attempt(
    write: &mut Write,
    spans: &[Span],
    body: impl Fn(usize) -> Result<String>,
    indices: &[usize],
    stored: &mut [bool],
) -> Result<()> {
    let (mut rest, mut recorded) = (indices, Recorded::default());
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rows_of_insert(rest.len()));
        let rows: Vec<_> = chunk.iter().map(|index| Ok((&spans[*index], body(*index)?))).collect::<Result<_>>()?;
        let digests = rows_digests(&rows)?;
        for ((index, digest), new) in chunk.iter().zip(digests).zip(insert_rows(write.connection(), rows).await?) {
            stored[*index] = new;
            recorded = if new { recorded.and(digest) } else { recorded };
        }
        rest = later;
    }
    if let Some(new) = indices.iter().find(|index| stored[**index]).map(|index| &spans[*index]) {
        hear_of(write, &new.rollout_id, &new.attempt_id, recorded).await?;
    }
    Ok(())
}

/// How many of so many rows the next `INSERT` takes: a power of two or one and a half times that, so that there are few
/// different statements to prepare.
fn rows_of_insert(left: usize) -> usize {
    let power = 1 << left.ilog2();
    let more = power + power / 2;
    if more <= left { more } else { power }.min(ROWS_PER_INSERT)
}

fn rows_digests(rows: &[(&Span, String)]) -> Result<Vec<Recorded>> {
    rows.iter().map(|(span, body)| Recorded::span(body, span.sequence_id)).collect()
}

/// Stores spans of one attempt, each with its JSON text; which of them are new.
async fn insert_rows(connection: &mut AnyConnection, rows: Vec<(&Span, String)>) -> Result<Vec<bool>> {
    let Some((first, _)) = rows.first() else { return Ok(Vec::new()) };
    let first: &Span = first;
    let span_ids: Vec<&str> = rows.iter().map(|(span, _)| span.span_id.as_str()).collect();
    let mut sql = Sql::new(
        "INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, start_time,
             end_time, body) VALUES ",
    );
    for (row, (span, body)) in rows.into_iter().enumerate() {
        sql.push(if row == 0 { "(" } else { ", (" }).text(&span.rollout_id).push(", ").text(&span.attempt_id);
        sql.push(", ").text(plain("span_id", &span.span_id)?);
        sql.push(", ").integer(to_integer("sequence_id", span.sequence_id)?);
        sql.push(", ").text(plain("trace_id", &span.trace_id)?);
        sql.push(", ").optional_text(optional_plain("parent_id", span.parent_id.as_deref())?);
        sql.push(", ").text(plain("name", &span.name)?).push(", ").optional_real(span.start_time);
        sql.push(", ").optional_real(span.end_time).push(", ").owned_text(body).push(")");
    }
    sql.push(" ON CONFLICT (rollout_id, attempt_id, span_id) DO NOTHING");
    let inserted = sql.execute(connection).await?;
    if inserted == span_ids.len() as u64 {
        return Ok(vec![true; span_ids.len()]);
    }
    // Nobody else writes meanwhile, so the latest of the attempt's spans are the ones that were just inserted.
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

/// A span as its row holds it, in JSON.
fn body(span: &Span) -> Result<String> {
    to_json("span", span)
}

/// Stores a span of an attempt that is there; whether the span is new.
pub(crate) async fn insert_span(write: &mut Write, span: &Span) -> Result<bool> {
    let body = body(span)?;
    let recorded = Recorded::span(&body, span.sequence_id)?;
    let new = insert_rows(write.connection(), vec![(span, body)]).await?.contains(&true);
    if new {
        count_in(write.connection(), &span.rollout_id, &span.attempt_id, recorded).await?;
    }
    Ok(new)
}

/// Lets a rollout's sequence ids go on after one that was given from outside.
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
async fn allocate_sequence_ids(write: &mut Write, rollout_id: &str, number: usize) -> Result<u64> {
    let row = sqlx::query(
        "INSERT INTO sequence_counters (rollout_id, value) VALUES ($1, $2)
         ON CONFLICT (rollout_id) DO UPDATE SET value = sequence_counters.value + excluded.value
         RETURNING value",
    )
    .bind(plain("rollout_id", rollout_id)?)
    .bind(to_integer("sequence_id", number)?)
    .fetch_one(write.connection())
    .await?;
    let last: u64 = count(&row, "value")?;
    Ok(last + 1 - number as u64)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, Page, SortOrder};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::TestStore;

    fn span(attempted: &AttemptedRollout, id: usize, sequence_id: u64) -> Span {
        serde_json::from_value(json!({
            "rollout_id": attempted.rollout.rollout_id, "attempt_id": attempted.attempt.attempt_id,
            "sequence_id": sequence_id, "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": format!("{id:016x}"),
            "parent_id": null, "name": "work", "status": {"status_code": "OK"},
            "attributes": {"whole": 2, "real": 2.0, "ids": [1, 2]}, "events": [], "links": [], "start_time": null,
            "end_time": 1795256016.667009, "context": null, "parent": null,
            "resource": {"attributes": {}, "schema_url": ""}, "kind": "SpanKind.INTERNAL",
        }))
        .unwrap()
    }

    fn of(attempted: &AttemptedRollout) -> SpanFilter {
        SpanFilter { rollout_id: attempted.rollout.rollout_id.clone(), ..SpanFilter::default() }
    }

    #[tokio::test]
    async fn every_incoming_span_has_its_own_fate() {
        let store = TestStore::new().await;
        let (one, two) = (store.start().await, store.start().await);
        let incoming = |span: Span, sequence_id| IncomingSpan { span, sequence_id };
        let unknown = Span { attempt_id: "at-no".into(), ..span(&one, 9, 0) };
        let given_back = Ingested::UnknownAttempt(Box::new(unknown.clone()));
        let fates = store
            .ingest_spans(vec![
                incoming(span(&one, 1, 77), None),
                incoming(span(&two, 1, 0), Some(0)),
                incoming(unknown, None),
                incoming(span(&one, 2, 0), Some(9)),
                incoming(span(&one, 1, 0), Some(4)),
                incoming(span(&one, 3, 0), None),
            ])
            .await
            .unwrap();
        let stored = |sequence_id| Ingested::Stored { sequence_id };
        assert_eq!(fates, [stored(1), stored(0), given_back, stored(9), Ingested::Duplicate, stored(2)]);
        assert_eq!(store.query_spans(&of(&one)).await.unwrap().total, 3);
        // What came from outside is not given again, and what was not stored has taken nothing.
        assert_eq!(store.next_sequence_id(&one.rollout.rollout_id).await.unwrap(), 10);
        assert_eq!(store.next_sequence_id(&two.rollout.rollout_id).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn many_spans_are_stored_once_each_whatever_their_number() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let mut stored = 0;
        for number in [1, 2, 63, 64, 65, 200] {
            let spans: Vec<_> = (0..number).map(|id| span(&attempted, id, id as u64)).collect();
            let new = store.add_spans(spans).await.unwrap().into_iter().flatten().count();
            assert_eq!(new, number - stored);
            stored = number;
        }
        let spans = store.query_spans(&of(&attempted)).await.unwrap();
        assert_eq!(spans.items, (0..200).map(|id| span(&attempted, id, id as u64)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn all_spans_are_stored_or_none() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let unknown = Span { attempt_id: "at-no".into(), ..span(&attempted, 2, 2) };
        let error = store.add_spans(vec![span(&attempted, 1, 1), unknown]).await.unwrap_err();
        assert_eq!(error.to_string(), "attempt not found: at-no");
        assert_eq!(store.query_spans(&of(&attempted)).await.unwrap().total, 0);
    }

    #[tokio::test]
    async fn json_text_of_a_page_says_the_same_as_the_page() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.add_spans((1..=20).map(|id| span(&attempted, id, 21 - id as u64)).collect()).await.unwrap();
        let pages = [
            Page::default(),
            Page {
                limit: Some(3),
                offset: 4,
                sort_by: Some("span_id".into()),
                sort_order: Some(SortOrder::Descending),
            },
            Page { limit: Some(5), offset: 100, ..Page::default() },
        ];
        for page in &pages {
            let filter = SpanFilter { page: page.clone(), ..of(&attempted) };
            let text = store.query_spans_as_json(&filter).await.unwrap();
            let expected = serde_json::to_value(store.query_spans(&filter).await.unwrap()).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        }
        let nobody = SpanFilter { rollout_id: "ro-no".into(), ..SpanFilter::default() };
        let text = store.query_spans_as_json(&nobody).await.unwrap();
        assert_eq!(text, r#"{"items":[],"limit":-1,"offset":0,"total":0}"#);
    }
}
