//! Tables for people.

use comfy_table::{Table, presets};

use crate::output;

/// Rows that line up under a header.
pub struct Columns(Table);

impl Columns {
    /// No rows yet.
    pub fn new(header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(header);
        Self(table)
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.0.add_row(row);
    }

    /// Prints them.
    pub fn print(&self) {
        self.0.lines().for_each(|line| output::line(line.trim_end()));
    }
}
