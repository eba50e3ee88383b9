//! `fulgurite attempts`.

use anyhow::Result;
use fulgurite_lab::time;
use fulgurite_terminal::table::{cell, seconds};
use fulgurite_types::{Attempt, ListFilter};

use super::list::{TableRecord, list};
use crate::query::arguments::AttemptsArguments;
use crate::query::open_selected;

/// Lists attempts.
pub async fn attempts(mut arguments: AttemptsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter {
        attempt_status_in: (!arguments.status.is_empty()).then_some(arguments.status),
        worker_id: arguments.worker,
        ..arguments.selection.filter()
    };
    list::<Attempt>(&store, &filter, &arguments.list).await
}

impl TableRecord for Attempt {
    const COLUMNS: &'static [&'static str] =
        &["rollout", "attempt", "seq", "status", "worker", "started", "seconds", "reason"];

    fn row(&self) -> Vec<String> {
        vec![
            self.rollout_id.clone(),
            self.attempt_id.clone(),
            self.sequence_id.to_string(),
            self.status.to_string(),
            self.worker_id.clone().unwrap_or_default(),
            time::text(self.start_time),
            seconds(Some(self.start_time), self.end_time),
            cell(self.metadata.as_ref().and_then(|metadata| metadata.get("reason"))),
        ]
    }
}
