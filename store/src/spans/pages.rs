//! Any number of spans, a few in memory at a time: which they are is found by one statement, and they themselves are
//! read in parts, so that no connection waits for a slow reader.

use std::collections::HashMap;
use std::vec::IntoIter;

use fulgurite_types::{Generation, Span, SpanFilter};
use futures::Stream;
use futures::stream::try_unfold;
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::aside::aside;
use crate::database::sql::{Sql, column, to_integer, to_json};
use crate::generations::reading::generations_of_spans;
use crate::open_database::Database;
use crate::spans::Spans;
use crate::spans::rows::{STORED, attempt_condition, span_from_row, total, wanted};
use crate::spans::with_tokens::{WITH_RAW_SPANS, add_tokens, raw_span};

/// Spans that are read at a time.
const PART: usize = 128;

/// A span's position, and whether the second span of its call is meant (see `with_tokens`).
type Place = (i64, bool);

/// Spans that meet a filter, in its order. One that is deleted before its turn comes is left out.
pub struct SpanPages {
    database: Database,
    places: IntoIter<Place>,
    has_generations: bool,
    total: u64,
    limit: i64,
    offset: u64,
}

impl Spans {
    /// Spans as [`Spans::query`] gives them.
    pub async fn pages(&self, filter: &SpanFilter) -> Result<SpanPages> {
        let has_generations = self.has_generations(filter).await?;
        self.pages_of(STORED, has_generations, filter).await
    }

    /// The same text as [`Spans::query_as_json`] gives, in pieces.
    pub async fn pages_as_json(&self, filter: &SpanFilter) -> Result<impl Stream<Item = Result<String>> + use<>> {
        let has_generations = self.has_generations(filter).await?;
        let source = if has_generations { WITH_RAW_SPANS } else { STORED };
        let pages = self.pages_of(source, has_generations, filter).await?;
        Ok(try_unfold(Some((pages, r#"{"items":["#)), |state| async move {
            let Some((mut pages, before)) = state else { return Ok(None) };
            Ok(Some(match pages.next_as_json().await? {
                Some(items) => (format!("{before}{items}"), Some((pages, ","))),
                None => (pages.end(if before == "," { "" } else { before }), None),
            }))
        }))
    }

    async fn has_generations(&self, filter: &SpanFilter) -> Result<bool> {
        let found = sqlx::query("SELECT 1 FROM generations WHERE rollout_id = $1 LIMIT 1")
            .bind(filter.rollout_id.as_str())
            .fetch_optional(&mut *self.database.reader().await?)
            .await?;
        Ok(found.is_some())
    }

    async fn pages_of(&self, source: &str, has_generations: bool, filter: &SpanFilter) -> Result<SpanPages> {
        let mut connection = self.database.reader().await?;
        let attempt_id = attempt_condition(&mut connection, filter).await?;
        let sql = wanted("SELECT position, raw_of FROM ", source, filter, attempt_id.as_deref())?;
        let mut places = Vec::new();
        let doubled = source == WITH_RAW_SPANS;
        sql.each(&mut connection, |row| {
            let position: i64 = column(row, "position")?;
            let is_raw = column::<Option<&str>>(row, "raw_of")?.is_some();
            places.push((if doubled { position.div_euclid(2) } else { position }, is_raw));
            Ok(())
        })
        .await?;
        Ok(SpanPages {
            total: total(&mut connection, source, filter, attempt_id.as_deref(), places.len()).await?,
            database: self.database.clone(),
            places: places.into_iter(),
            has_generations,
            limit: filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: filter.page.offset,
        })
    }
}

impl SpanPages {
    /// The next spans; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Span>>> {
        let Some((places, rows)) = self.next_rows().await? else { return Ok(None) };
        let spans = places.iter().filter_map(|(position, is_raw)| Some(span_at(rows.get(position)?, *is_raw)));
        let mut spans: Vec<Span> = spans.collect::<Result<_>>()?;
        if self.has_generations {
            add_tokens(&mut *self.database.reader().await?, &mut spans).await?;
        }
        Ok(Some(spans))
    }

    /// The next spans, each with the generation that it is of, if it is of one; `None` after the last.
    pub async fn next_with_generations(&mut self) -> Result<Option<Vec<(Span, Option<Generation>)>>> {
        let Some(spans) = self.next().await? else { return Ok(None) };
        let mut behind: HashMap<(String, String), Generation> = HashMap::new();
        if let Some(first) = spans.first().filter(|_| self.has_generations) {
            let span_ids: Vec<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
            let mut connection = self.database.reader().await?;
            for generation in generations_of_spans(&mut connection, &first.rollout_id, &span_ids, &[]).await? {
                behind.insert((generation.attempt_id.clone(), generation.span_id.clone()), generation);
            }
        }
        let with_generation = |span: Span| {
            let generation = behind.remove(&(span.attempt_id.clone(), span.span_id.clone()));
            (span, generation)
        };
        Ok(Some(spans.into_iter().map(with_generation).collect()))
    }

    /// The next spans as JSON with commas between them; `None` after the last. Where no generation is among them they
    /// are the text that is stored.
    async fn next_as_json(&mut self) -> Result<Option<String>> {
        let texts: Vec<String> = if self.has_generations {
            let Some(spans) = self.next().await? else { return Ok(None) };
            aside(|| spans.iter().map(|span| to_json("span", span)).collect::<Result<_>>())?
        } else {
            let Some((places, rows)) = self.next_rows().await? else { return Ok(None) };
            let rows = places.iter().filter_map(|(position, _)| rows.get(position));
            rows.map(|row| column(row, "body")).collect::<Result<_>>()?
        };
        // Those that are gone must not leave a comma.
        if texts.is_empty() { Box::pin(self.next_as_json()).await } else { Ok(Some(texts.join(","))) }
    }

    /// The text after the spans.
    fn end(&self, before: &str) -> String {
        let Self { limit, offset, total, .. } = self;
        format!(r#"{before}],"limit":{limit},"offset":{offset},"total":{total}}}"#)
    }

    /// Rows of the next places, by their positions.
    async fn next_rows(&mut self) -> Result<Option<(Vec<Place>, HashMap<i64, AnyRow>)>> {
        let places: Vec<Place> = self.places.by_ref().take(PART).collect();
        if places.is_empty() {
            return Ok(None);
        }
        let mut sql = Sql::new(
            "SELECT s.position, s.body, g.generation_id FROM spans s LEFT JOIN generations g
             ON g.rollout_id = s.rollout_id AND g.attempt_id = s.attempt_id AND g.span_id = s.span_id
             WHERE s.position IN ",
        );
        sql.integers(places.iter().map(|(position, _)| *position), PART);
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let rows = rows.into_iter().map(|row| Ok((column(&row, "position")?, row))).collect::<Result<_>>()?;
        Ok(Some((places, rows)))
    }
}

fn span_at(row: &AnyRow, is_raw: bool) -> Result<Span> {
    let span = span_from_row(row)?;
    Ok(match column::<Option<&str>>(row, "generation_id")? {
        Some(generation_id) if is_raw => raw_span(span, generation_id),
        _ => span,
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, Page, SortOrder};
    use futures::TryStreamExt;
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    fn span(attempted: &AttemptedRollout, id: usize) -> Span {
        serde_json::from_value(json!({
            "rollout_id": attempted.rollout.rollout_id, "attempt_id": attempted.attempt.attempt_id,
            "sequence_id": 1000 - id, "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": format!("{id:016x}"),
            "parent_id": null, "name": "work", "status": {"status_code": "OK"}, "attributes": {"id": id},
            "events": [], "links": [], "start_time": null, "end_time": 1.5, "context": null, "parent": null,
            "resource": {"attributes": {}, "schema_url": ""},
        }))
        .unwrap()
    }

    async fn pieces(store: &TestStore, filter: &SpanFilter) -> Vec<String> {
        store.spans().pages_as_json(filter).await.unwrap().try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn pieces_make_the_text_of_the_whole_page() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let filter = |page: &Page| SpanFilter {
            rollout_id: attempted.rollout.rollout_id.clone(),
            page: page.clone(),
            ..SpanFilter::default()
        };
        let descending = Some(SortOrder::Descending);
        let pages = [
            Page::default(),
            Page { limit: Some(PART as u64 + 5), offset: 4, sort_by: Some("span_id".into()), sort_order: descending },
            Page { limit: Some(5), offset: 1000, ..Page::default() },
        ];
        for calls in [0, 3] {
            for call in 0..calls {
                store.recording().record(generation(&format!("call-{call}"), &attempted, &[1], &[2])).await.unwrap();
            }
            store.spans().add((0..2 * PART + 7).map(|id| span(&attempted, id)).collect()).await.unwrap();
            for page in &pages {
                let filter = filter(page);
                let pieces = pieces(&store, &filter).await;
                assert!(pieces.len() <= 4, "{}", pieces.len());
                assert_eq!(pieces.concat(), store.spans().query_as_json(&filter).await.unwrap());
            }
            let mut all = Vec::new();
            let mut paged = store.spans().pages(&filter(&pages[0])).await.unwrap();
            while let Some(spans) = paged.next().await.unwrap() {
                assert!(spans.len() <= PART);
                all.extend(spans);
            }
            assert_eq!(all, store.spans().query(&filter(&pages[0])).await.unwrap().items);
        }
        let nobody = SpanFilter { rollout_id: "ro-no".into(), ..SpanFilter::default() };
        assert_eq!(pieces(&store, &nobody).await.concat(), r#"{"items":[],"limit":-1,"offset":0,"total":0}"#);
    }

    #[tokio::test]
    async fn spans_that_are_deleted_meanwhile_are_left_out() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.spans().add((0..2 * PART).map(|id| span(&attempted, id)).collect()).await.unwrap();
        let filter = SpanFilter { rollout_id: attempted.rollout.rollout_id.clone(), ..SpanFilter::default() };
        let mut text = Box::pin(store.spans().pages_as_json(&filter).await.unwrap());
        let first = text.try_next().await.unwrap().unwrap();
        let id = attempted.rollout.rollout_id.clone();
        let deleted = store.database().write(move |write| {
            Box::pin(async move { crate::rollouts::deletion::delete_rollouts(write, &[id.as_str()]).await })
        });
        assert_eq!(deleted.await.unwrap().spans, 2 * PART as u64);
        let rest: Vec<String> = text.try_collect().await.unwrap();
        let whole: serde_json::Value = serde_json::from_str(&(first + &rest.concat())).unwrap();
        assert_eq!(whole["items"].as_array().unwrap().len(), PART);
    }
}
