//! The queries: what a store holds, as a table for people or as JSON for programs.
//!
//! Every list is of one kind of record ([`list::Record`]): the newest ones, newest last, and with `--follow` what is
//! new from then on. `show` tells one rollout whole.

pub mod arguments;
mod attempts;
mod check;
mod drift;
mod generations;
mod list;
mod prune;
mod resources;
mod rewards;
mod rollouts;
mod show;
mod spans;
mod sql;
mod stats;
pub mod table;
mod transcript;
mod triplets;
mod workers;

use anyhow::{Context, Result, bail};
use fulgurite_store::{Store, redact_url};

use crate::config::LoadedConfig;
use crate::serve::store_url;
use crate::train::STORE_FILE;

use arguments::{RolloutSelection, StoreArguments};

pub use attempts::attempts;
pub use check::check;
pub use drift::drift;
pub use generations::generations;
pub use prune::prune;
pub use resources::resources;
pub use rewards::rewards;
pub use rollouts::rollouts;
pub use show::show;
pub use spans::spans;
pub use sql::sql;
pub use stats::stats;
pub use triplets::{triplets, triplets_of};
pub use workers::workers;

/// The URL of the store that is meant.
pub fn url(arguments: &StoreArguments) -> Result<String> {
    Ok(match (&arguments.store, &arguments.run) {
        (Some(url), _) => url.clone(),
        (None, Some(run)) => format!("sqlite://{}", run.join(STORE_FILE).display()),
        (None, None) => store_url(&LoadedConfig::read(arguments.config.as_deref())?),
    })
}

/// Opens a store for reading.
pub async fn open(arguments: &StoreArguments) -> Result<Store> {
    let url = url(arguments)?;
    Store::open_read_only(&url)
        .await
        .with_context(|| format!("cannot open the store {} (--store, --run, --config)", redact_url(&url)))
}

/// Opens a store for reading; refuses a selected rollout that it does not know.
async fn open_selected(arguments: &StoreArguments, selection: &RolloutSelection) -> Result<Store> {
    let store = open(arguments).await?;
    if let Some(id) = selection.rollout_id()
        && store.get_rollout(id).await?.is_none()
    {
        bail!("there is no rollout `{id}` in this store");
    }
    Ok(store)
}
