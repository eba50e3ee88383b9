//! How every list is printed: the newest records, and what comes after them.

use std::time::Duration;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_store::model::{Cursor, ListFilter, Listed, Part};
use serde_json::Value;

use super::arguments::ListArguments;
use super::table::Columns;
use crate::output;
use crate::server::Interruptions;

/// Records that are read at a time where all are wanted.
const PAGE: u64 = 500;
/// How often a followed list is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// One kind of record that can be listed.
pub trait Record: Sized {
    /// The table's header.
    const COLUMNS: &'static [&'static str];

    /// A part of the list.
    fn fetch(store: &Store, filter: &ListFilter, part: &Part) -> impl Future<Output = Result<Listed<Self>>>;

    /// The record for programs.
    fn json(&self) -> Value;

    /// The record as a row of the table.
    fn row(&self) -> Vec<String>;
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
    let cursor = if arguments.all && arguments.sort.is_none() {
        everything_after::<R>(store, filter, Cursor::default(), &mut printer).await?
    } else {
        newest::<R>(store, filter, arguments, &mut printer).await?
    };
    printer.flush();
    if arguments.follow { follow::<R>(store, filter, cursor, printer).await } else { Ok(()) }
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
    let listed = R::fetch(store, filter, &part).await?;
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
