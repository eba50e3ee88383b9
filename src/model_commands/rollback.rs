//! `fulgurite model rollback`: an earlier checkpoint's weights behind a model that is served.

use anyhow::Result;
use fulgurite_lab::records::exclusive_lock::is_run_held;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use fulgurite_training::weights::rollback::{Rollback, RolledBack};

use crate::model_commands::arguments::ModelRollbackArguments;

/// Puts the weights there, and says what was there before.
pub async fn rollback(arguments: &ModelRollbackArguments) -> Result<()> {
    let ModelRollbackArguments { source, checkpoint, model, server } = arguments.clone();
    let rolled_back = Rollback { source, checkpoint, model, server }.put_back(&TerminalNotices).await?;
    let RolledBack { model, version, step, before, run, .. } = &rolled_back;
    let before = before.map_or_else(|| "an unknown version".to_owned(), |version| format!("version {version}"));
    let of_step = if version.0 == *step { String::new() } else { format!(" (step {step})") };
    output::line(format!("{model}: version {}{of_step} in place of {before}", version.0));
    let servers = rolled_back.servers().await?;
    if !servers.is_empty() {
        let mut table = Columns::new(&["server", "version", "state", ""]);
        for served in servers {
            let version = served.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
            let state = served.state.as_str().to_owned();
            table.push(vec![served.url, version, state, served.message.unwrap_or_default()]);
        }
        output::lines(table.lines());
    }
    if is_run_held(run) {
        output::note(format_args!(
            "warning: {} is being trained: it ends at its next update, and these weights stay",
            run.display()
        ));
    }
    Ok(())
}
