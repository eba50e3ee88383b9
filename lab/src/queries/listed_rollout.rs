//! Rollouts, each with its latest attempt and that attempt's last reward.

use std::collections::HashMap;

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{Attempt, ListFilter, Listed, Part, Rollout};
use serde_json::{Value, json};

use super::listing::ListedRecord;

/// A rollout and how it stands.
#[derive(Clone, Debug)]
pub struct ListedRollout {
    /// The rollout.
    pub rollout: Rollout,
    /// Its latest attempt.
    pub attempt: Option<Attempt>,
    /// What that attempt earned last.
    pub reward: Option<f64>,
}

const ALL: Part = Part::Newest { limit: None, sort_by: None };

impl ListedRecord for ListedRollout {
    const SORTED_HERE: &'static [&'static str] = &["reward", "attempts", "duration", "run_id", "step"];

    async fn fetch(store: &Store, filter: &ListFilter, part: &Part) -> Result<Listed<Self>, StoreError> {
        let Listed { items, cursor } = store.queries().list_rollouts(filter, part).await?;
        if items.is_empty() {
            return Ok(Listed { items: Vec::new(), cursor });
        }
        let ids = items.iter().map(|rollout| rollout.rollout_id.clone()).collect();
        let of_these = ListFilter { rollout_id_in: Some(ids), ..ListFilter::default() };
        let mut attempts = store.queries().latest_attempts(&items).await?;
        let mut rewards: HashMap<(String, String), f64> = HashMap::new();
        for found in store.queries().list_rewards(&of_these, &ALL).await?.items {
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
}
