//! `fulgurite runs`: the registry of runs.

pub mod arguments;

use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_lab::runs::differing_keys::differing_keys;
use fulgurite_lab::runs::registry;
use fulgurite_store::{Store, redact_url};
use fulgurite_terminal::output;
use fulgurite_terminal::tables::runs::{compared_runs, run_lines, run_table};
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
    let entries = match &arguments.store {
        Some(url) => {
            let store = Store::open_read_only(url).await;
            let store = store.with_context(|| format!("cannot open the store {}", redact_url(url)))?;
            let mut entries = registry::of_store(&store, prices.as_ref()).await?;
            entries.sort_by(|one, other| one.start_time.total_cmp(&other.start_time));
            entries
        }
        None => {
            let warn = |directory: &Path, error: &anyhow::Error| {
                output::note(format_args!("warning: {}: {error:#}", directory.display()));
            };
            registry::of_directories_below(&arguments.directory, prices.as_ref(), warn).await?
        }
    };
    match arguments.print.json {
        true => output::lines(entries.iter().map(|entry| json!(entry))),
        false => output::lines(run_table(&entries)),
    }
    Ok(())
}

async fn show(arguments: &ShowRunArguments) -> Result<()> {
    let prices = arguments.print.prices.as_deref().map(registry::prices_in).transpose()?;
    let directory = registry::directory(&arguments.run)?;
    let entry = registry::of_directory(&directory, prices.as_ref()).await?;
    match arguments.print.json {
        true => output::line(json!(entry)),
        false => output::lines(run_lines(&entry)),
    }
    Ok(())
}

async fn compare(arguments: &CompareRunsArguments) -> Result<()> {
    let prices = arguments.print.prices.as_deref().map(registry::prices_in).transpose()?;
    let (first, second) = (registry::directory(&arguments.first)?, registry::directory(&arguments.second)?);
    let one = registry::of_directory(&first, prices.as_ref()).await?;
    let other = registry::of_directory(&second, prices.as_ref()).await?;
    let differing_keys = differing_keys(&first, &second)?;
    match arguments.print.json {
        true => output::line(json!({ "a": one, "b": other, "differing_keys": differing_keys })),
        false => output::lines(compared_runs(&one, &other, differing_keys)),
    }
    Ok(())
}
