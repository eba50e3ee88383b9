//! `fulgurite data`: what a run would learn from, before it does.

pub mod arguments;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_terminal::tables::data::data_lines;
use fulgurite_training::train::data_report;
use serde_json::json;

use self::arguments::DataArguments;

/// Prints what the data of a config are.
pub async fn data(arguments: DataArguments) -> Result<()> {
    let DataArguments { config, overrides, json: is_json } = arguments;
    let loaded = LoadedConfig::read_with(Some(&config), &overrides)?;
    let report = data_report(&loaded, &TerminalNotices).await?;
    if is_json {
        output::line(json!(report));
    } else {
        output::lines(data_lines(&report, Paint::for_stdout()));
    }
    Ok(())
}
