//! Records that are listed in tables.

use fulgurite_lab::queries::listing::ListedRecord;

/// One kind of record that has a table.
pub trait TableRecord: ListedRecord {
    /// The table's header.
    const COLUMNS: &'static [&'static str];

    /// The record as a row of the table.
    fn row(&self) -> Vec<String>;
}
