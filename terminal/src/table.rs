//! Tables for people.

use comfy_table::{ColumnConstraint, Table, Width, presets};
use fulgurite_lab::visible::{cut, visible_line};
use serde_json::Value;

/// Rows that line up under a header. More rows can come after it has been printed; they line up as well.
pub struct Columns {
    header: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
    widths: Vec<u16>,
}

impl Columns {
    /// No rows yet.
    pub fn new(header: &[&str]) -> Self {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Self { header: Some(header), rows: Vec::new(), widths: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        // Shown text is what lines up.
        self.rows.push(row.iter().map(|cell| visible_line(cell)).collect());
    }

    /// The lines of what has been added since the last time; the header once.
    pub fn lines(&mut self) -> Vec<String> {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let header = self.header.take();
        if header.is_none() && self.rows.is_empty() {
            return Vec::new();
        }
        if let Some(header) = header {
            table.set_header(header);
        }
        table.add_rows(self.rows.drain(..));
        for (column, width) in table.column_iter_mut().zip(&self.widths) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
        // Lower boundaries count the padding, widths of contents do not.
        let seen = table.column_max_content_widths();
        self.widths.resize(seen.len(), 0);
        for (width, seen) in self.widths.iter_mut().zip(seen) {
            *width = (*width).max(seen + 2);
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

/// Text as it is, anything else as JSON, cut to what a table can show.
pub fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => cut(text),
        Some(other) => cut(&other.to_string()),
    }
}

/// The seconds from one time to another, if both are known.
pub fn seconds(start: Option<f64>, end: Option<f64>) -> String {
    start.zip(end).map_or(String::new(), |(start, end)| format!("{:.3}", end - start))
}

#[cfg(test)]
mod tests {
    use fulgurite_lab::visible::CELL_CHARACTERS;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_cell_is_cut_between_characters() {
        let long = "ä".repeat(CELL_CHARACTERS + 1);
        assert_eq!(cell(Some(&json!(long))), format!("{}…", "ä".repeat(CELL_CHARACTERS)));
        assert_eq!(cell(Some(&json!("a\nb"))), "a b");
        assert_eq!(cell(Some(&json!({ "n": 1 }))), "{\"n\":1}");
    }

    #[test]
    fn later_rows_line_up_with_the_header() {
        let mut table = Columns::new(&["name", "n"]);
        table.push(vec!["a long name".to_owned(), "1".to_owned()]);
        assert_eq!(table.lines(), [" name         n", " a long name  1"]);
        assert!(table.lines().is_empty());
        table.push(vec!["b".to_owned(), "2".to_owned()]);
        assert_eq!(table.lines(), [" b            2"]);
    }
}
