//! `fulgurite rollouts`.

use anyhow::Result;
use fulgurite_lab::queries::listed_rollout::ListedRollout;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_lab::time;
use fulgurite_terminal::table::cell;
use fulgurite_types::ListFilter;

use super::list::{TableRecord, list};
use crate::query::arguments::RolloutsArguments;
use crate::query::open_selected;

/// Lists rollouts, each with its latest attempt and that attempt's last reward.
pub async fn rollouts(mut arguments: RolloutsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let status = (!arguments.status.is_empty()).then_some(arguments.status);
    let filter = ListFilter { rollout_status_in: status, ..arguments.selection.filter() };
    let filter = narrow(&store, filter, arguments.expression.as_ref()).await?;
    list::<ListedRollout>(&store, &filter, &arguments.list).await
}

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
