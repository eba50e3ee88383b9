use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use anyhow::{Context, Error, Result};
use fulgurite_renderers::RowError;
use fulgurite_terminal::output;
use serde_json::{Value, json};

/// Reads lines from a file, or from standard input, and prints one line for each, in order: what `answer` makes of it,
/// or `{"error": ...}`.
pub fn answer_each(path: Option<&Path>, answer: impl Fn(&[u8]) -> Result<Value, RowError>) -> Result<()> {
    let reader: Box<dyn BufRead> = match path {
        None => Box::new(stdin().lock()),
        Some(path) => {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            Box::new(BufReader::new(file))
        }
    };
    for line in reader.split(b'\n') {
        let line = line.context("cannot read the rows")?;
        output::line(answer(&line).unwrap_or_else(|error| json!({"error": format!("{:#}", Error::new(error))})));
    }
    Ok(())
}
