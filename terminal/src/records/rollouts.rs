//! Rollouts in a table.

use fulgurite_lab::queries::listed_rollout::ListedRollout;
use fulgurite_lab::time;

use super::table_record::TableRecord;
use crate::table::cell;

impl TableRecord for ListedRollout {
    const COLUMNS: &'static [&'static str] =
        &["rollout", "status", "mode", "run", "step", "started", "attempts", "reward", "input", "reason"];

    fn row(&self) -> Vec<String> {
        let Self { rollout, attempt, reward } = self;
        let metadata = |key: &str| cell(rollout.noted(key));
        let reason = attempt.as_ref().and_then(|attempt| attempt.metadata.as_ref()?.get("reason"));
        vec![
            rollout.rollout_id.clone(),
            rollout.status.to_string(),
            rollout.mode.map_or(String::new(), |mode| mode.to_string()),
            metadata("run_id"),
            metadata("step"),
            time::text(rollout.start_time),
            attempt.as_ref().map_or("0".to_owned(), |attempt| attempt.sequence_id.to_string()),
            reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
            cell(Some(&rollout.input)),
            cell(reason),
        ]
    }
}
