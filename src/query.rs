//! The queries: what a store holds, as a table for people or as JSON for programs.
//!
//! Every list is of one kind of record (`lists::list::Record`): the newest ones, newest last, and with `--follow` what is
//! new from then on. `show` tells one rollout whole.

pub mod arguments;
mod check;
mod lists;
mod prune;
mod renew_checksums;
mod show;
mod sql;
mod stats;
mod transcript;

use std::env::VarError;
use std::io::{BufRead, IsTerminal, stdin};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records;
use fulgurite_lab::records::open_store::store_url;
use fulgurite_lab::records::run_files::STORE_FILE;
use fulgurite_lab::runs::registry;
use fulgurite_store::{Store, redact_url};

use crate::terminal::output;

use arguments::{RolloutSelection, StoreArguments};

pub use check::check;
pub use lists::{attempts, drift, generations, resources, rewards, rollouts, spans, triplets, workers};
pub use prune::prune;
pub use renew_checksums::renew_checksums;
pub use show::show;
pub use sql::sql;
pub use stats::stats;

/// Says which store is meant where the command line does not. To the parser it would be an argument like `--store`, which
/// it refuses beside `--run` and `--config`.
const VARIABLE: &str = "FULGURITE_STORE";

/// The URL of the store that is meant.
pub fn url(arguments: &StoreArguments) -> Result<String> {
    let StoreArguments { store, run, config } = arguments;
    Ok(match (store, run, config) {
        (Some(url), _, _) => url.clone(),
        (None, Some(run), _) => match registry::directory(run) {
            Ok(directory) => records::store_of_run(&directory)?,
            Err(_) => run_database(run),
        },
        (None, None, Some(file)) => store_url(&LoadedConfig::read(Some(file))?),
        (None, None, None) => match std::env::var(VARIABLE) {
            Ok(url) => url,
            Err(VarError::NotPresent) => store_url(&LoadedConfig::read(None)?),
            Err(VarError::NotUnicode(_)) => bail!("{VARIABLE} is not UTF-8"),
        },
    })
}

/// The URL of the database in a run's own directory.
fn run_database(run: &Path) -> String {
    format!("sqlite://{}", run.join(STORE_FILE).display())
}

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
    let url = url(arguments)?;
    Store::open_read_only(&url)
        .await
        .with_context(|| format!("cannot open the store {} (--store, --run, --config)", redact_url(&url)))
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

/// The id of the rollout with this id, or of the session with this name.
///
/// # Errors
/// If there is none, or more than one session of that name.
pub async fn existing_rollout(store: &Store, name: &str) -> Result<String> {
    let id = store.rollout_id_of(name).await?;
    match store.get_rollout(&id).await? {
        Some(_) => Ok(id),
        None => bail!("there is no rollout `{name}` in this store, and no session of that name"),
    }
}
