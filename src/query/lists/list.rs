//! How every list is printed: the newest records, and what comes after them.

use std::time::Duration;

use anyhow::Result;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::queries::listing::{list_records, records_after};
use fulgurite_store::Store;
use fulgurite_terminal::output;
use fulgurite_terminal::records::TableRecord;
use fulgurite_terminal::table::Columns;
use fulgurite_types::{Cursor, ListFilter};

use crate::query::arguments::ListArguments;

/// How often a followed list is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Prints records as they come: JSON at once, rows when the table is told to.
struct Printer {
    table: Option<Columns>,
}

impl Printer {
    fn add<R: TableRecord>(&mut self, records: &[R]) {
        for record in records {
            match &mut self.table {
                Some(table) => table.push(record.row()),
                None => output::line(record.json()),
            }
        }
    }

    fn flush(&mut self) {
        if let Some(table) = &mut self.table {
            output::lines(table.lines());
        }
    }
}

/// Prints a list.
pub async fn list<R: TableRecord>(store: &Store, filter: &ListFilter, arguments: &ListArguments) -> Result<()> {
    let mut printer = Printer { table: (!arguments.json).then(|| Columns::new(R::COLUMNS)) };
    let mut add = |records: Vec<R>| printer.add(&records);
    let cursor = list_records::<R>(store, filter, &arguments.request(), &mut add).await?;
    printer.flush();
    match cursor.filter(|_| arguments.follow) {
        Some(cursor) => follow::<R>(store, filter, cursor, printer).await,
        None => Ok(()),
    }
}

/// Prints what is new until it is interrupted or nobody reads any more.
async fn follow<R: TableRecord>(
    store: &Store,
    filter: &ListFilter,
    mut cursor: Cursor,
    mut printer: Printer,
) -> Result<()> {
    let mut interruptions = Interruptions::listen()?;
    while !output::reader_has_left() {
        let mut add = |records: Vec<R>| printer.add(&records);
        cursor = records_after::<R>(store, filter, cursor, &mut add).await?;
        printer.flush();
        tokio::select! {
            () = interruptions.next() => break,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
    Ok(())
}
