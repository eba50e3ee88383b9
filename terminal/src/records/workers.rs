//! Workers in a table.

use fulgurite_lab::time;
use fulgurite_types::Worker;

use crate::table::Columns;

/// A line for each worker.
pub fn workers_table(workers: &[Worker]) -> Vec<String> {
    let mut table = Columns::new(&["worker", "status", "rollout", "attempt", "heard of", "asked", "busy", "idle"]);
    workers.iter().for_each(|worker| table.push(row(worker)));
    table.lines()
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
