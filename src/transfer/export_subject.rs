//! What `fulgurite export RUN|ROLLOUT` names: a run, or a rollout of a store.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_lab::queries::rollout_reading::existing_rollout;
use fulgurite_lab::records;
use fulgurite_lab::runs::registry;
use fulgurite_store::{Store, redact_url};
use fulgurite_types::ListFilter;

use super::arguments::ExportArguments;
use crate::query::arguments::StoreArguments;
use crate::query::open;

/// The directory of the run that is named, by its place on the command line or by `--run`.
///
/// # Errors
/// If no run is there, or if the command line names two.
pub fn named_run(arguments: &ExportArguments) -> Result<Option<PathBuf>> {
    let StoreArguments { store, run, .. } = &arguments.store;
    if store.is_some() {
        bail!("--store names no run: give its directory, or its name below runs/");
    }
    match (&arguments.named, run) {
        // Said twice, as commands of before `named` meant a run everywhere say it.
        (Some(named), Some(run)) if Path::new(named) == run => registry::directory(run).map(Some),
        (Some(named), Some(_)) => bail!("`{named}` and --run name a run each: leave out one of them"),
        (Some(named), None) => registry::directory(Path::new(named)).map(Some),
        (None, Some(run)) => registry::directory(run).map(Some),
        (None, None) => Ok(None),
    }
}

/// The store that records are read from, and which of its records are asked for.
///
/// # Errors
/// If what is named is neither a run nor a rollout, or both.
pub async fn open_subject(arguments: &ExportArguments) -> Result<(Store, ListFilter)> {
    let Some(named) = &arguments.named else {
        let store = open(&arguments.store).await?;
        let id = match &arguments.rollout {
            Some(name) => Some(existing_rollout(&store, name).await?),
            None => None,
        };
        return Ok((store, arguments.filter(id.as_deref())));
    };
    match registry::directory(Path::new(named)) {
        Ok(directory) => {
            refuse_two_meanings(arguments, named, &directory).await?;
            open_run(arguments, &directory).await
        }
        Err(_) => open_rollout(arguments, named).await,
    }
}

/// Refuses a run where another store is named, or where the name is a rollout's as well.
async fn refuse_two_meanings(arguments: &ExportArguments, named: &str, directory: &Path) -> Result<()> {
    // Without a store there is no rollout of that name either.
    if let Ok(store) = open(&arguments.store).await
        && matches!(store.rollouts().get(named).await, Ok(Some(_)))
    {
        bail!(
            "`{named}` is the run in {} and a rollout of {}: --run {} means the run, --rollout {named} the rollout",
            directory.display(),
            redact_url(&arguments.store.named().url()?),
            directory.display()
        );
    }
    let StoreArguments { store, run, config } = &arguments.store;
    if store.is_some() || run.is_some() || config.is_some() {
        bail!("`{named}` is a run, which says itself where its store is: leave out --store, --run and --config");
    }
    Ok(())
}

/// The store of a run. One that has other runs too is narrowed to this one.
async fn open_run(arguments: &ExportArguments, directory: &Path) -> Result<(Store, ListFilter)> {
    let own = StoreArguments { store: None, run: Some(directory.to_owned()), config: None };
    let (store, mut filter) = (open(&own).await?, arguments.filter(None));
    if !records::has_own_store(directory)? {
        let run_id = records::run_file(directory)?["run_id"].as_str().unwrap_or_default().to_owned();
        if let Some(other) = filter.run_id.filter(|other| *other != run_id) {
            bail!("--run-id {other} is not the run in {}, which is {run_id}: leave it out", directory.display());
        }
        filter.run_id = Some(run_id);
    }
    Ok((store, filter))
}

async fn open_rollout(arguments: &ExportArguments, name: &str) -> Result<(Store, ListFilter)> {
    let no_run = || format!("`{name}` is no run: neither its directory, nor its name below runs/");
    let store = open(&arguments.store).await.with_context(no_run)?;
    let id = store.rollouts().id_of(name).await?;
    if store.rollouts().get(&id).await?.is_none() {
        let url = arguments.store.named().url()?;
        bail!("{}; nor is it a rollout of {}", no_run(), redact_url(&url));
    }
    Ok((store, arguments.filter(Some(&id))))
}
