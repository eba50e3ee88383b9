//! Lists of one kind of record: the newest, the greatest by a field, and what comes after them.

use std::cmp::Ordering;

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{Attempt, CallDrift, Cursor, FoundReward, Generation, ListFilter, Listed, Part, Span};
use serde::Serialize;
use serde_json::{Value, json};

use super::QueryError;

/// Records that are read at a time where all are wanted.
const PAGE: u64 = 500;

/// One kind of record that can be listed.
pub trait ListedRecord: Sized {
    /// What it can be sorted by beside the fields that the store sorts by.
    const SORTED_HERE: &'static [&'static str] = &[];

    /// A part of the list.
    fn fetch(
        store: &Store,
        filter: &ListFilter,
        part: &Part,
    ) -> impl Future<Output = Result<Listed<Self>, StoreError>> + Send;

    /// The record for programs.
    fn json(&self) -> Value;

    /// What a field that it is sorted by holds.
    fn sort_key(&self, field: &str) -> Value {
        self.json()[field].take()
    }
}

/// Which records are listed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// Greatest last.
    Ascending,
    /// Least last.
    Descending,
}

/// How much of a list is wanted, and in which order.
#[derive(Clone, Debug)]
pub struct ListRequest<'r> {
    /// The newest, or greatest, or least so many; all if `None`.
    pub limit: Option<u64>,
    /// The field to sort by, in place of the order in which records were made.
    pub sort: Option<&'r str>,
    /// The order by that field.
    pub order: SortOrder,
}

/// Hands over the records that are asked for, a page at a time, and gives the place where what is new begins. A list in an order of
/// its own has no such place.
///
/// # Errors
/// If the store does not answer, or has no such field.
pub async fn list_records<R: ListedRecord>(
    store: &Store,
    filter: &ListFilter,
    request: &ListRequest<'_>,
    take: &mut (dyn FnMut(Vec<R>) + Send),
) -> Result<Option<Cursor>, QueryError> {
    let is_sorted_here = |field: &&str| request.order == SortOrder::Descending || R::SORTED_HERE.contains(field);
    if let Some(field) = request.sort.filter(is_sorted_here) {
        take(sorted_here::<R>(store, filter, field, request).await?);
        return Ok(None);
    }
    if request.limit.is_none() && request.sort.is_none() {
        return Ok(Some(records_after(store, filter, Cursor::default(), take).await?));
    }
    newest::<R>(store, filter, request, take).await.map(Some)
}

/// Hands over all that comes after a place, a page at a time, and gives the place after that.
///
/// # Errors
/// If the store does not answer.
pub async fn records_after<R: ListedRecord>(
    store: &Store,
    filter: &ListFilter,
    mut cursor: Cursor,
    take: &mut (dyn FnMut(Vec<R>) + Send),
) -> Result<Cursor, StoreError> {
    loop {
        let listed = R::fetch(store, filter, &Part::After { cursor, limit: Some(PAGE) }).await?;
        cursor = listed.cursor;
        if listed.items.is_empty() {
            return Ok(cursor);
        }
        take(listed.items);
    }
}

/// The greatest records by a field, greatest last, or the least; those that lack it come first. Of all records no more are
/// kept at a time than are wanted, and a page.
async fn sorted_here<R: ListedRecord>(
    store: &Store,
    filter: &ListFilter,
    field: &str,
    request: &ListRequest<'_>,
) -> Result<Vec<R>, QueryError> {
    if !R::SORTED_HERE.contains(&field) {
        // The store knows whether there is such a field.
        let look = Part::Newest { limit: Some(1), sort_by: Some(field.to_owned()) };
        R::fetch(store, filter, &look).await.map_err(|source| unsorted::<R>(field, source))?;
    }
    let wanted = request.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let (mut kept, mut cursor): (Vec<(Value, R)>, _) = (Vec::new(), Cursor::default());
    loop {
        let listed = R::fetch(store, filter, &Part::After { cursor, limit: Some(PAGE) }).await?;
        cursor = listed.cursor;
        if listed.items.is_empty() {
            return Ok(kept.into_iter().map(|(_, record)| record).collect());
        }
        kept.extend(listed.items.into_iter().map(|record| (record.sort_key(field), record)));
        kept.sort_by(|(one, _), (other, _)| by_value(one, other, request.order));
        kept.drain(..kept.len().saturating_sub(wanted));
    }
}

fn unsorted<R: ListedRecord>(field: &str, source: StoreError) -> QueryError {
    QueryError::Sort { field: field.to_owned(), more: R::SORTED_HERE, source }
}

/// Numbers by what they are, all else as text; what is missing comes first either way.
fn by_value(one: &Value, other: &Value, order: SortOrder) -> Ordering {
    let ordered = |ordering: Ordering| match order {
        SortOrder::Ascending => ordering,
        SortOrder::Descending => ordering.reverse(),
    };
    match (one, other) {
        (Value::Null, _) | (_, Value::Null) => other.is_null().cmp(&one.is_null()),
        (Value::Number(one), Value::Number(other)) => {
            ordered(one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal))
        }
        (Value::String(one), Value::String(other)) => ordered(one.cmp(other)),
        (one, other) => ordered(one.to_string().cmp(&other.to_string())),
    }
}

async fn newest<R: ListedRecord>(
    store: &Store,
    filter: &ListFilter,
    request: &ListRequest<'_>,
    take: &mut (dyn FnMut(Vec<R>) + Send),
) -> Result<Cursor, QueryError> {
    // Whoever wants none of the old ones still has to learn where the new ones begin.
    let at_least_one = request.limit.map(|limit| limit.max(1));
    let part = Part::Newest { limit: at_least_one, sort_by: request.sort.map(str::to_owned) };
    let listed = R::fetch(store, filter, &part).await;
    let listed = match request.sort {
        Some(field) => listed.map_err(|source| unsorted::<R>(field, source))?,
        None => listed?,
    };
    if request.limit != Some(0) {
        take(listed.items);
    }
    Ok(listed.cursor)
}

/// Records that are listed as the store has them.
macro_rules! listed_as_stored {
    ($($record:ty: $list:ident),*) => {
        $(impl ListedRecord for $record {
            async fn fetch(store: &Store, filter: &ListFilter, part: &Part) -> Result<Listed<Self>, StoreError> {
                store.queries().$list(filter, part).await
            }

            fn json(&self) -> Value {
                to_json(self)
            }
        })*
    };
}

listed_as_stored!(
    Attempt: list_attempts, CallDrift: list_drift, FoundReward: list_rewards, Generation: list_generations, Span: list_spans
);

fn to_json(record: &impl Serialize) -> Value {
    json!(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_by_what_they_are_and_missing_ones_come_first_either_way() {
        let sorted = |order| {
            let mut values = vec![json!(2), json!(null), json!(-1.5), json!(10)];
            values.sort_by(|one, other| by_value(one, other, order));
            values
        };
        assert_eq!(sorted(SortOrder::Ascending), [json!(null), json!(-1.5), json!(2), json!(10)]);
        assert_eq!(sorted(SortOrder::Descending), [json!(null), json!(10), json!(2), json!(-1.5)]);
        assert_eq!(by_value(&json!("b"), &json!("a"), SortOrder::Ascending), Ordering::Greater);
    }
}
