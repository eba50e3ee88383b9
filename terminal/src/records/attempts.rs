//! Attempts in a table.

use fulgurite_lab::time;
use fulgurite_types::Attempt;

use super::table_record::TableRecord;
use crate::table::{cell, seconds};

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
