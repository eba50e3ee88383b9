//! Finding spans.

use fulgurite_types::{Paginated, Span, SpanFilter};
use sqlx::AnyConnection;

use crate::Result;
use crate::database::sql::{Sql, column, count, to_integer, to_json};
use crate::spans::Spans;
use crate::spans::rows::{STORED, attempt_condition, total, wanted};
use crate::spans::with_tokens::{WITH_RAW_SPANS, add_tokens, wire_span_from_row};

impl Spans {
    /// Spans of a rollout that meet a filter; none if the rollout is not known. The span of a generation gets its
    /// tokens and logprobs as attributes: `prompt_token_ids`, `response_token_ids` and, as JSON text in OpenAI's
    /// shape, `logprobs.content`. So does every other span of its attempt that names it as `gen_ai.response.id`, as an
    /// agent's own tracer writes it, and lacks them.
    pub async fn query(&self, filter: &SpanFilter) -> Result<Paginated<Span>> {
        let mut connection = self.database.reader().await?;
        query_in(STORED, &mut connection, filter).await
    }

    /// The same as JSON text and as Agent-lightning's readers expect it, for whom every call has a second span (see
    /// `with_tokens`). Where no generation is among the spans, they pass through as they are stored.
    pub async fn query_as_json(&self, filter: &SpanFilter) -> Result<String> {
        let mut connection = self.database.reader().await?;
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
}

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

fn page_of_bodies(source: &str, filter: &SpanFilter, attempt_id: Option<&str>) -> Result<Sql> {
    wanted("SELECT body, raw_of FROM ", source, filter, attempt_id)
}
