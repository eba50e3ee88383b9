//! Tables for spreadsheets.

/// A line of a CSV file.
pub fn row(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|text| cell(text.as_ref())).collect();
    format!("{}\n", cells.join(","))
}

/// A cell of a CSV file, as RFC 4180 has it.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
