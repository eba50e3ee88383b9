//! `fulgurite workers`.

use anyhow::{Result, bail};
use fulgurite_terminal::output;
use fulgurite_terminal::records::workers_table;
use fulgurite_types::WorkerFilter;
use serde_json::json;

use crate::query::arguments::WorkersArguments;
use crate::query::open;

/// Lists workers.
pub async fn workers(arguments: WorkersArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let status_in = (!arguments.status.is_empty()).then_some(arguments.status);
    let mut found = store.workers().query(&WorkerFilter { status_in, ..WorkerFilter::default() }).await?.items;
    if let Some(id) = &arguments.id {
        found.retain(|worker| worker.worker_id == *id);
        if found.is_empty() && store.workers().get(id).await?.is_none() {
            bail!("there is no worker `{id}` in this store");
        }
    }
    match arguments.json {
        true => output::lines(found.iter().map(|worker| json!(worker))),
        false => output::lines(workers_table(&found)),
    }
    Ok(())
}
