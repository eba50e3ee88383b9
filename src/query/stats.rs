//! `fulgurite stats`.

use anyhow::Result;
use fulgurite_terminal::output;
use fulgurite_terminal::tables::stats::stats_lines;
use serde_json::json;

use super::arguments::StatsArguments;
use super::open;

/// Prints what a store holds, in numbers.
pub async fn stats(arguments: StatsArguments) -> Result<()> {
    let summary = open(&arguments.store).await?.queries().summary().await?;
    match arguments.json {
        true => output::line(json!(summary)),
        false => output::lines(stats_lines(&summary)),
    }
    Ok(())
}
