//! `fulgurite workers`.

use anyhow::{Result, bail};
use fulgurite_lab::time;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use fulgurite_types::{Worker, WorkerFilter};
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
    let mut table = Columns::new(&["worker", "status", "rollout", "attempt", "heard of", "asked", "busy", "idle"]);
    for worker in &found {
        if arguments.json {
            output::line(json!(worker));
        } else {
            table.push(row(worker));
        }
    }
    if !arguments.json {
        table.print();
    }
    Ok(())
}

fn row(worker: &Worker) -> Vec<String> {
    let since = |time: Option<f64>| time.map_or(String::new(), time::text);
    vec![
        worker.worker_id.clone(),
        worker.status.to_string(),
        worker.current_rollout_id.clone().unwrap_or_default(),
        worker.current_attempt_id.clone().unwrap_or_default(),
        since(worker.last_heartbeat_time),
        since(worker.last_dequeue_time),
        since(worker.last_busy_time),
        since(worker.last_idle_time),
    ]
}
