//! Tables for spreadsheets.

/// A cell of a CSV file, as RFC 4180 has it.
pub fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
