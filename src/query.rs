//! The queries: what a store holds, as a table for people or as JSON for programs.
//!
//! Every list is of one kind of record (`TableRecord`): the newest ones, newest last, and with `--follow` what is
//! new from then on. `show` tells one rollout whole.

pub mod arguments;
mod check;
mod lists;
mod prune;
mod renew_checksums;
mod show;
mod sql;
mod stats;

use std::io::{BufRead, IsTerminal, stdin};

use anyhow::{Context, Result, bail};
use fulgurite_lab::queries::rollout_reading::existing_rollout;
use fulgurite_store::Store;
use fulgurite_terminal::output;

use arguments::{RolloutSelection, StoreArguments};

pub use check::check;
pub use lists::{attempts, drift, generations, resources, rewards, rollouts, spans, triplets, workers};
pub use prune::prune;
pub use renew_checksums::renew_checksums;
pub use show::show;
pub use sql::sql;
pub use stats::stats;

/// Asks at the terminal, and fails unless the answer is yes. `instead` says what to type without one.
fn confirmed(question: &str, instead: &str) -> Result<()> {
    if !stdin().is_terminal() {
        bail!("{instead}");
    }
    output::note_piece(format_args!("{question}? [y/N] "));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

/// Opens a store for reading.
pub async fn open(arguments: &StoreArguments) -> Result<Store> {
    arguments.named().open().await
}

/// Opens a store for reading; refuses a selected rollout that it does not know, and puts the id of a named session in place
/// of its name.
async fn open_selected(arguments: &StoreArguments, selection: &mut RolloutSelection) -> Result<Store> {
    let store = open(arguments).await?;
    if let Some(name) = selection.id.take().or(selection.rollout.take()) {
        selection.id = Some(existing_rollout(&store, &name).await?);
    }
    Ok(store)
}
