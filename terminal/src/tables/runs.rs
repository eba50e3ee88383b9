//! The registry's runs: a table of several, one in full, two next to each other.

use fulgurite_lab::runs::registry::{HeldOut, HeldOutMeasure, RunEntry};
use fulgurite_lab::runs::{lines, signed};
use fulgurite_lab::time;
use fulgurite_lab::visible::cut;

use crate::table::Columns;

const HEADER: [&str; 15] = [
    "run",
    "state",
    "objective",
    "started",
    "updates",
    "held-out",
    "first",
    "best",
    "at",
    "seconds",
    "sampled",
    "trained",
    "thrown away",
    "cost",
    "error",
];

/// A line for each run, in their order.
pub fn run_table(entries: &[RunEntry]) -> Vec<String> {
    let mut columns = Columns::new(&HEADER);
    entries.iter().for_each(|entry| columns.push(row(entry)));
    columns.lines()
}

fn row(entry: &RunEntry) -> Vec<String> {
    let value = |score: Option<HeldOut>| score.map_or(String::new(), |score| signed(score.value));
    vec![
        entry.run_id.clone(),
        entry.state.as_str().to_owned(),
        entry.objective.clone(),
        time::text(entry.start_time),
        entry.updates.to_string(),
        entry.measure.map_or("", HeldOutMeasure::as_str).to_owned(),
        value(entry.first),
        value(entry.best),
        entry.best.map_or(String::new(), |best| best.step.to_string()),
        format!("{:.1}", entry.wall_seconds),
        entry.tokens.sampled.to_string(),
        entry.tokens.trained.to_string(),
        entry.tokens.thrown_away.to_string(),
        entry.cost.as_ref().map_or(String::new(), |cost| format!("{:.4} {}", cost.total, cost.currency)),
        entry.failure.as_deref().map_or(String::new(), cut),
    ]
}

/// What is known of a run, name by name, and what became of its tokens.
pub fn run_lines(entry: &RunEntry) -> Vec<String> {
    let named = lines(entry).into_iter().map(|(name, value)| format!("{name:<22}{value}").trim_end().to_owned());
    let mut columns = Columns::new(&["sampled tokens", "", "share"]);
    for (cause, tokens) in &entry.tokens.by_cause {
        let share = *tokens as f64 / entry.tokens.sampled.max(1) as f64;
        columns.push(vec![cause.clone(), tokens.to_string(), format!("{:.1} %", 100.0 * share)]);
    }
    columns.push(vec!["all".to_owned(), entry.tokens.sampled.to_string(), String::new()]);
    named.chain([String::new()]).chain(columns.lines()).collect()
}

/// Two runs next to each other, and the keys of their configs that differ.
pub fn compared_runs(
    one: &RunEntry,
    other: &RunEntry,
    differing_keys: impl IntoIterator<Item = (String, [String; 2])>,
) -> Vec<String> {
    let mut columns = Columns::new(&["", "A", "B"]);
    let others = lines(other);
    for (name, value) in lines(one) {
        let other = others.iter().find(|(known, _)| *known == name).map_or(String::new(), |(_, value)| value.clone());
        columns.push(vec![name.to_owned(), value, other]);
    }
    let mut keys = Columns::new(&["key", "A", "B"]);
    for (key, [one, other]) in differing_keys {
        keys.push(vec![key, cut(&one), cut(&other)]);
    }
    columns.lines().into_iter().chain([String::new()]).chain(keys.lines()).collect()
}
