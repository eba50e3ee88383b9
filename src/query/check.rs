//! `fulgurite store check`.

use anyhow::{Result, bail};
use fulgurite_store::CheckEvent;
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use serde_json::json;

use super::arguments::CheckArguments;
use super::open;

/// Prints a line for every law that does not hold, and fails if there is one.
pub async fn check(arguments: CheckArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let mut progress = Progress::new(arguments.json);
    let violations = store
        .housekeeping()
        .check(&mut |event| match event {
            CheckEvent::WithoutChecksum { table, rows } if arguments.json => {
                output::line(json!({"without_checksum": table, "rows": rows}));
            }
            CheckEvent::WithoutChecksum { table, rows } => {
                output::line(format!("{rows} {table} without checksum: recorded before there were any"));
            }
            CheckEvent::Progress { table, done, total } => progress.set(table, done, Some(total)),
            CheckEvent::Violation(violation) if arguments.json => output::line(json!(violation)),
            CheckEvent::Violation(violation) => {
                output::line(format!("{} {}: {}", violation.law, violation.row, violation.message));
            }
        })
        .await?;
    progress.finish();
    match violations {
        0 if arguments.json => {}
        0 => output::line("the store is sound"),
        1 => bail!("the store breaks a law of its own"),
        more => bail!("the store breaks its own laws in {more} places"),
    }
    Ok(())
}
