//! `fulgurite runs`: the registry of runs.

pub mod arguments;

use anyhow::{Context, Result};
use fulgurite_lab::runs::differing_keys::differing_keys;
use fulgurite_lab::runs::registry::{self, HeldOut, HeldOutMeasure};
use fulgurite_lab::runs::{lines, signed};
use fulgurite_lab::time;
use fulgurite_lab::visible::cut;
use fulgurite_store::{Store, redact_url};
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use serde_json::json;

use self::arguments::{CompareRunsArguments, ListRunsArguments, RunsAction, RunsArguments, ShowRunArguments};

/// Lists runs, shows one, or compares two.
pub async fn runs(arguments: RunsArguments) -> Result<()> {
    match arguments.action {
        None => list(&arguments.list).await,
        Some(RunsAction::Show(arguments)) => show(&arguments).await,
        Some(RunsAction::Compare(arguments)) => compare(&arguments).await,
    }
}

async fn list(arguments: &ListRunsArguments) -> Result<()> {
    let prices = arguments.print.prices.as_deref().map(registry::prices_in).transpose()?;
    let mut entries = Vec::new();
    match &arguments.store {
        Some(url) => {
            let store = Store::open_read_only(url).await;
            let store = store.with_context(|| format!("cannot open the store {}", redact_url(url)))?;
            entries = registry::of_store(&store, prices.as_ref()).await?;
        }
        None => {
            for directory in registry::directories(&arguments.directory)? {
                match registry::of_directory(&directory, prices.as_ref()).await {
                    Ok(entry) => entries.push(entry),
                    // One that cannot be read hides no other.
                    Err(error) => {
                        fulgurite_terminal::output::note(format_args!("warning: {}: {error:#}", directory.display()))
                    }
                }
            }
        }
    }
    entries.sort_by(|one, other| one.start_time.total_cmp(&other.start_time));
    if arguments.print.json {
        entries.iter().for_each(|entry| output::line(json!(entry)));
        return Ok(());
    }
    let mut columns = Columns::new(&[
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
    ]);
    for entry in &entries {
        let value = |score: Option<HeldOut>| score.map_or(String::new(), |score| signed(score.value));
        let cost = entry.cost.as_ref();
        columns.push(vec![
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
            cost.map_or(String::new(), |cost| format!("{:.4} {}", cost.total, cost.currency)),
            entry.failure.as_deref().map_or(String::new(), cut),
        ]);
    }
    columns.print();
    Ok(())
}

async fn show(arguments: &ShowRunArguments) -> Result<()> {
    let prices = arguments.print.prices.as_deref().map(registry::prices_in).transpose()?;
    let directory = registry::directory(&arguments.run)?;
    let entry = registry::of_directory(&directory, prices.as_ref()).await?;
    if arguments.print.json {
        output::line(json!(entry));
        return Ok(());
    }
    for (name, value) in lines(&entry) {
        output::line(format!("{name:<22}{value}").trim_end());
    }
    output::line("");
    let mut columns = Columns::new(&["sampled tokens", "", "share"]);
    for (cause, tokens) in &entry.tokens.by_cause {
        let share = *tokens as f64 / entry.tokens.sampled.max(1) as f64;
        columns.push(vec![cause.clone(), tokens.to_string(), format!("{:.1} %", 100.0 * share)]);
    }
    columns.push(vec!["all".to_owned(), entry.tokens.sampled.to_string(), String::new()]);
    columns.print();
    Ok(())
}

async fn compare(arguments: &CompareRunsArguments) -> Result<()> {
    let prices = arguments.print.prices.as_deref().map(registry::prices_in).transpose()?;
    let (first, second) = (registry::directory(&arguments.first)?, registry::directory(&arguments.second)?);
    let one = registry::of_directory(&first, prices.as_ref()).await?;
    let other = registry::of_directory(&second, prices.as_ref()).await?;
    if arguments.print.json {
        output::line(json!({ "a": one, "b": other, "differing_keys": differing_keys(&first, &second)? }));
        return Ok(());
    }
    let mut columns = Columns::new(&["", "A", "B"]);
    let others: Vec<_> = lines(&other);
    for (name, value) in lines(&one) {
        let other = others.iter().find(|(known, _)| *known == name).map_or(String::new(), |(_, value)| value.clone());
        columns.push(vec![name.to_owned(), value, other]);
    }
    columns.print();
    output::line("");
    let mut columns = Columns::new(&["key", "A", "B"]);
    for (key, [one, other]) in differing_keys(&first, &second)? {
        columns.push(vec![key, cut(&one), cut(&other)]);
    }
    columns.print();
    Ok(())
}
