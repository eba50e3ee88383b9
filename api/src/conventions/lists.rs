//! Lists that may be long: their text is written as they are read.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fulgurite_store::{ListPages, Result, StoreError, aside};
use fulgurite_types::{Page, Paginated};
use futures::future::ready;
use futures::stream::{self, try_unfold};
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;

use super::error::RestError;
use super::turns::written;

/// Records that are put together in memory, at most; of more, the reply is written as they are read.
const AT_ONCE: u64 = 256;

/// Whether a page is short enough to be put together in memory.
pub fn is_short(page: &Page) -> bool {
    page.limit.is_some_and(|limit| limit <= AT_ONCE)
}

/// A page that is in memory.
pub fn whole<T: Serialize>(page: Result<Paginated<T>>) -> std::result::Result<Response, RestError> {
    Ok(written(page?))
}

/// The text of the same page, written as its records are read.
pub fn in_parts<T: Serialize + Send + 'static>(
    pages: ListPages<T>,
    page: &Page,
) -> std::result::Result<Response, RestError> {
    let total = pages.total;
    let parts = try_unfold(pages, |mut pages| async move {
        let Some(records) = pages.next().await? else { return Ok::<_, StoreError>(None) };
        Ok(Some((records, pages)))
    });
    list_of(parts, total, page)
}

/// A page of which so many records come at a time.
pub fn list_of<T: Serialize + Send + 'static>(
    parts: impl Stream<Item = Result<Vec<T>>> + Send + 'static,
    total: u64,
    page: &Page,
) -> std::result::Result<Response, RestError> {
    let limit = page.limit.map_or(Ok(-1), i64::try_from).map_err(|_| StoreError::invalid("limit", "is too large"))?;
    let mut is_first = true;
    let texts = parts.map(move |records| {
        let text = aside(|| joined(&records?, is_first))?;
        is_first &= text.is_empty();
        Ok(text)
    });
    let end = format!(r#"],"limit":{limit},"offset":{},"total":{total}}}"#, page.offset);
    let text = stream::once(ready(Ok(r#"{"items":["#.to_owned()))).chain(texts).chain(stream::once(ready(Ok(end))));
    let text = text.inspect_err(|error: &StoreError| tracing::warn!(%error, "a list broke off"));
    Ok(([(CONTENT_TYPE, "application/json")], axum::body::Body::from_stream(text)).into_response())
}

/// Records as JSON, with a comma before each but the first of the list.
fn joined<T: Serialize>(records: &[T], is_first: bool) -> Result<String> {
    let mut text = String::new();
    for record in records {
        if !(is_first && text.is_empty()) {
            text.push(',');
        }
        let record = serde_json::to_string(record);
        text.push_str(&record.map_err(|error| StoreError::invalid("record", error.to_string()))?);
    }
    Ok(text)
}
