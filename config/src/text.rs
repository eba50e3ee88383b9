//! Reads the config's TOML, and says of a mistake in it where it is and what would be right.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use fulgurite_backends::{Notation, plain_words};
use serde::de::DeserializeOwned;

/// Longest part of a line that is shown.
const LONGEST_LINE: usize = 160;

/// Reads TOML; the error says on which line, shows it with a caret, and names the nearest known key or value.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    let deserializer = toml::Deserializer::parse(text).map_err(|error| with_source_line(text, &error, ""))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let place = error.path().to_string();
        with_source_line(text, error.inner(), &place)
    })
}

fn with_source_line(text: &str, error: &toml::de::Error, place: &str) -> anyhow::Error {
    let words = plain_words(error.message(), place, Notation::Toml);
    match error.span() {
        Some(span) => {
            let start = span.start.min(text.len());
            let number = text[..start].matches('\n').count() + 1;
            anyhow!("line {number}: {words}{}", excerpt(text, number, start, span.end))
        }
        None => anyhow!(words),
    }
}

/// The line with carets below what is wrong. A URL may hold a password: a line that has one is not shown.
fn excerpt(text: &str, number: usize, start: usize, end: usize) -> String {
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    if line.contains('@') || line.chars().count() > LONGEST_LINE {
        return String::new();
    }
    let before = start - line_start;
    let width = end.min(line_start + line.len()).saturating_sub(start);
    let columns = |range: std::ops::Range<usize>| line.get(range).map_or(1, |part| part.chars().count());
    let (indent, carets) = (columns(0..before), columns(before..before + width).max(1));
    let margin = " ".repeat(number.to_string().len());
    let mut shown = String::new();
    // Text takes whatever is written to it.
    let _ = write!(shown, "\n    {number} | {line}\n    {margin} | {}{}", " ".repeat(indent), "^".repeat(carets));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declarations::Config;

    fn fail(text: &str) -> String {
        parse::<Config>(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_name() {
        insta::assert_snapshot!(fail("[server]\nlissten = \"x\"\n"), @r#"
        line 2: server has no key `lissten`; did you mean `listen`?
            2 | lissten = "x"
              | ^^^^^^^
        "#);
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_told_with_its_key_and_shown() {
        insta::assert_snapshot!(fail("[runner]\n# höher\nparallel = -1  # all\n"), @r#"
        line 3: runner.parallel is -1, but must be a whole number, 0 or more
            3 | parallel = -1  # all
              |            ^^
        "#);
        insta::assert_snapshot!(fail("[tasks]\ntrain = { range = [0, 4], as = \"text\" }\nheld_out = []\n"), @r#"
        line 2: tasks.train.as cannot be `text`; there is `number`, `string`
            2 | train = { range = [0, 4], as = "text" }
              |                                ^^^^^^
        "#);
        insta::assert_snapshot!(fail("[tasks]\ntrain = { range = [0, 4], file = \"x\" }\nheld_out = []\n"), @r#"
        line 2: tasks.train: tasks are of a `range`, of a `file` or of `harbor`: write one of the three
            2 | train = { range = [0, 4], file = "x" }
              |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        "#);
        insta::assert_snapshot!(fail("[tasks]\ntrain = \"tasks.jsonl\"\nheld_out = []\n"), @r#"
        line 2: tasks.train is "tasks.jsonl", but must be a list of tasks, { range = [0, 1000] }, { file = "tasks.jsonl" } or { harbor = "DIR" }
            2 | train = "tasks.jsonl"
              |         ^^^^^^^^^^^^^
        "#);
        insta::assert_snapshot!(fail("[trainer]\nharvest = true\n"), @r#"
        line 2: trainer.harvest is true, but must be a table
            2 | harvest = true
              |           ^^^^
        "#);
    }

    #[test]
    fn a_line_that_may_hold_a_password_is_not_shown() {
        let message = fail("[store]\nuurl = \"postgres://me:secret@host/db\"\n");
        assert!(message.contains("`uurl`") && !message.contains("secret"), "{message}");
    }
}
