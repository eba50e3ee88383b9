//! `fulgurite rollouts`.

use std::collections::HashMap;

use anyhow::Result;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_lab::time;
use fulgurite_store::Store;
use fulgurite_types::{Attempt, ListFilter, Listed, Part, Rollout};
use serde_json::{Value, json};

use super::list::{Record, list};
use crate::query::arguments::RolloutsArguments;
use crate::query::open_selected;
use crate::terminal::table::cell;

/// Lists rollouts, each with its latest attempt and that attempt's last reward.
pub async fn rollouts(mut arguments: RolloutsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let status = (!arguments.status.is_empty()).then_some(arguments.status);
    let filter = ListFilter { rollout_status_in: status, ..arguments.selection.filter() };
    let filter = narrow(&store, filter, arguments.expression.as_ref()).await?;
    list::<ListedRollout>(&store, &filter, &arguments.list).await
}

/// A rollout and how it stands.
struct ListedRollout {
    rollout: Rollout,
    attempt: Option<Attempt>,
    reward: Option<f64>,
}

impl Record for ListedRollout {
    const COLUMNS: &'static [&'static str] =
        &["rollout", "status", "mode", "run", "step", "started", "attempts", "reward", "input", "reason"];

    const SORTED_HERE: &'static [&'static str] = &["reward", "attempts", "duration", "run_id", "step"];

    async fn fetch(store: &Store, filter: &ListFilter, part: &Part) -> Result<Listed<Self>> {
        let Listed { items, cursor } = store.list_rollouts(filter, part).await?;
        if items.is_empty() {
            return Ok(Listed { items: Vec::new(), cursor });
        }
        let ids = items.iter().map(|rollout| rollout.rollout_id.clone()).collect();
        let of_these = ListFilter { rollout_id_in: Some(ids), ..ListFilter::default() };
        let mut attempts = store.latest_attempts(&items).await?;
        let mut rewards: HashMap<(String, String), f64> = HashMap::new();
        for found in store.list_rewards(&of_these, &ALL).await?.items {
            rewards.insert((found.rollout_id, found.recorded.attempt_id), found.recorded.reward.value);
        }
        let items = items
            .into_iter()
            .map(|rollout| {
                let attempt = attempts.remove(&rollout.rollout_id);
                let key = attempt.as_ref().map(|attempt| (attempt.rollout_id.clone(), attempt.attempt_id.clone()));
                Self { reward: key.and_then(|key| rewards.get(&key).copied()), rollout, attempt }
            })
            .collect();
        Ok(Listed { items, cursor })
    }

    fn json(&self) -> Value {
        let mut line = json!(self.rollout);
        line["attempt"] = json!(self.attempt);
        line["reward"] = json!(self.reward);
        line
    }

    fn sort_key(&self, field: &str) -> Value {
        let Self { rollout, attempt, reward } = self;
        match field {
            "reward" => json!(reward),
            "attempts" => json!(attempt.as_ref().map(|attempt| attempt.sequence_id)),
            "duration" => json!(rollout.end_time.map(|end| end - rollout.start_time)),
            "run_id" | "step" => json!(rollout.noted(field)),
            other => self.json()[other].take(),
        }
    }

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

const ALL: Part = Part::Newest { limit: None, sort_by: None };
