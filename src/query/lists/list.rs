//! How every list is printed: the newest records, and what comes after them.

use std::cmp::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_store::Store;
use fulgurite_types::{Cursor, ListFilter, Listed, Part};
use serde_json::Value;

use crate::query::arguments::ListArguments;
use crate::terminal::output;
use crate::terminal::table::Columns;

/// Records that are read at a time where all are wanted.
const PAGE: u64 = 500;
/// How often a followed list is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// One kind of record that can be listed.
pub trait Record: Sized {
    /// The table's header.
    const COLUMNS: &'static [&'static str];

    /// What it can be sorted by beside the fields that the store sorts by.
    const SORTED_HERE: &'static [&'static str] = &[];

    /// A part of the list.
    fn fetch(store: &Store, filter: &ListFilter, part: &Part) -> impl Future<Output = Result<Listed<Self>>>;

    /// The record for programs.
    fn json(&self) -> Value;

    /// The record as a row of the table.
    fn row(&self) -> Vec<String>;

    /// What a field that it is sorted by holds.
    fn sort_key(&self, field: &str) -> Value {
        self.json()[field].take()
    }
}

/// Prints records as they come: JSON at once, rows when the table is told to.
struct Printer {
    table: Option<Columns>,
}

impl Printer {
    fn add<R: Record>(&mut self, records: &[R]) {
        for record in records {
            match &mut self.table {
                Some(table) => table.push(record.row()),
                None => output::line(record.json()),
            }
        }
    }

    fn flush(&mut self) {
        if let Some(table) = &mut self.table {
            table.print();
        }
    }
}

/// Prints a list.
pub async fn list<R: Record>(store: &Store, filter: &ListFilter, arguments: &ListArguments) -> Result<()> {
    let mut printer = Printer { table: (!arguments.json).then(|| Columns::new(R::COLUMNS)) };
    if let Some(field) =
        arguments.sort.as_ref().filter(|field| arguments.reverse || R::SORTED_HERE.contains(&field.as_str()))
    {
        printer.add(&sorted_here::<R>(store, filter, field, arguments).await?);
        printer.flush();
        return Ok(());
    }
    let cursor = if arguments.all && arguments.sort.is_none() {
        everything_after::<R>(store, filter, Cursor::default(), &mut printer).await?
    } else {
        newest::<R>(store, filter, arguments, &mut printer).await?
    };
    printer.flush();
    if arguments.follow { follow::<R>(store, filter, cursor, printer).await } else { Ok(()) }
}

/// The context of an error of sorting: what a list can be sorted by beside what the store says.
fn sorted_by<R: Record>(field: &str) -> String {
    match R::SORTED_HERE {
        [] => format!("--sort {field}"),
        more => format!("--sort {field} (beside the store's fields there are {})", more.join(", ")),
    }
}

/// The greatest records by a field, greatest last, or the least; those that lack it come first. Of all records no more are
/// kept at a time than are wanted, and a page.
async fn sorted_here<R: Record>(
    store: &Store,
    filter: &ListFilter,
    field: &str,
    arguments: &ListArguments,
) -> Result<Vec<R>> {
    if !R::SORTED_HERE.contains(&field) {
        // The store knows whether there is such a field.
        let look = Part::Newest { limit: Some(1), sort_by: Some(field.to_owned()) };
        R::fetch(store, filter, &look).await.with_context(|| sorted_by::<R>(field))?;
    }
    let wanted = if arguments.all { usize::MAX } else { usize::try_from(arguments.limit).unwrap_or(usize::MAX) };
    let (mut kept, mut cursor): (Vec<(Value, R)>, _) = (Vec::new(), Cursor::default());
    loop {
        let listed = R::fetch(store, filter, &Part::After { cursor, limit: Some(PAGE) }).await?;
        cursor = listed.cursor;
        if listed.items.is_empty() {
            return Ok(kept.into_iter().map(|(_, record)| record).collect());
        }
        kept.extend(listed.items.into_iter().map(|record| (record.sort_key(field), record)));
        kept.sort_by(|(one, _), (other, _)| by_value(one, other, arguments.reverse));
        kept.drain(..kept.len().saturating_sub(wanted));
    }
}

/// Numbers by what they are, all else as text; what is missing comes first either way.
fn by_value(one: &Value, other: &Value, reverse: bool) -> Ordering {
    let ordered = |ordering: Ordering| if reverse { ordering.reverse() } else { ordering };
    match (one, other) {
        (Value::Null, _) | (_, Value::Null) => other.is_null().cmp(&one.is_null()),
        (Value::Number(one), Value::Number(other)) => {
            ordered(one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal))
        }
        (Value::String(one), Value::String(other)) => ordered(one.cmp(other)),
        (one, other) => ordered(one.to_string().cmp(&other.to_string())),
    }
}

async fn newest<R: Record>(
    store: &Store,
    filter: &ListFilter,
    arguments: &ListArguments,
    printer: &mut Printer,
) -> Result<Cursor> {
    let limit = (!arguments.all).then_some(arguments.limit);
    // Whoever wants none of the old ones still has to be told where the new ones begin.
    let at_least_one = limit.map(|limit| limit.max(1));
    let part = Part::Newest { limit: at_least_one, sort_by: arguments.sort.clone() };
    let listed = R::fetch(store, filter, &part).await;
    let listed = match &arguments.sort {
        Some(field) => listed.with_context(|| sorted_by::<R>(field))?,
        None => listed?,
    };
    if limit != Some(0) {
        printer.add(&listed.items);
    }
    Ok(listed.cursor)
}

/// Adds all that comes after a cursor, a page at a time.
async fn everything_after<R: Record>(
    store: &Store,
    filter: &ListFilter,
    mut cursor: Cursor,
    printer: &mut Printer,
) -> Result<Cursor> {
    loop {
        let listed = R::fetch(store, filter, &Part::After { cursor, limit: Some(PAGE) }).await?;
        cursor = listed.cursor;
        if listed.items.is_empty() {
            return Ok(cursor);
        }
        printer.add(&listed.items);
    }
}

/// Prints what is new until it is interrupted or nobody reads any more.
async fn follow<R: Record>(store: &Store, filter: &ListFilter, mut cursor: Cursor, mut printer: Printer) -> Result<()> {
    let mut interruptions = Interruptions::listen()?;
    while !output::reader_has_gone() {
        cursor = everything_after::<R>(store, filter, cursor, &mut printer).await?;
        printer.flush();
        tokio::select! {
            () = interruptions.next() => break,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_sorted_by_what_they_are_and_missing_ones_come_first_either_way() {
        let sorted = |reverse| {
            let mut values = vec![json!(2), json!(null), json!(-1.5), json!(10)];
            values.sort_by(|one, other| by_value(one, other, reverse));
            values
        };
        assert_eq!(sorted(false), [json!(null), json!(-1.5), json!(2), json!(10)]);
        assert_eq!(sorted(true), [json!(null), json!(10), json!(2), json!(-1.5)]);
        assert_eq!(by_value(&json!("b"), &json!("a"), false), Ordering::Greater);
    }
}
