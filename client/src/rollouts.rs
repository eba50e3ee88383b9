//! What a trainer asks of a server about rollouts and what was recorded of them.

use std::collections::HashSet;
use std::time::Duration;

use fulgurite_types::{
    Attempt, Generation, NewRollout, Object, PackedGeneration, Paginated, RecordedReward, RewardedAttempts, Rollout,
};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::{Server, ServerError};

/// How long one request waits for rollouts at most; whoever wants to wait longer asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct GenerationsPage {
    items: Vec<PackedGeneration>,
    next_offset: Option<u64>,
}

impl Server {
    /// Puts rollouts at the end of the queue, in order.
    pub async fn enqueue_rollouts(&self, mut rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>, ServerError> {
        for rollout in &mut rollouts {
            rollout.rollout_id.get_or_insert_with(|| format!("ro-{}", Uuid::now_v7().simple()));
        }
        let url = self.route(&["v1", "agl", "queues", "rollouts", "enqueue"]);
        let enqueued: Vec<Rollout> = self.post(&url, &json!({ "rollouts": rollouts })).await?;
        let asked = rollouts.iter().map(|rollout| rollout.rollout_id.as_ref());
        match enqueued.iter().map(|rollout| Some(&rollout.rollout_id)).eq(asked) {
            true => Ok(enqueued),
            false => Err(self.wrong(&url, "its rollouts are not those that were enqueued")),
        }
    }

    /// Waits until all of these rollouts have ended, or for `timeout`; gives those that have.
    pub async fn wait_for_rollouts(
        &self,
        rollout_ids: &[String],
        timeout: Duration,
    ) -> Result<Vec<Rollout>, ServerError> {
        let url = self.route(&["v1", "agl", "waits", "rollouts"]);
        let timeout = timeout.min(LONGEST_WAIT).as_secs_f64();
        let ended: Vec<Rollout> = self.post(&url, &json!({ "rollout_ids": rollout_ids, "timeout": timeout })).await?;
        let asked: HashSet<&String> = rollout_ids.iter().collect();
        match ended.iter().find(|rollout| !asked.contains(&rollout.rollout_id) || !rollout.status.is_finished()) {
            None => Ok(ended),
            Some(other) => {
                let Rollout { rollout_id, status, .. } = other;
                let reason = format!("rollout {rollout_id}, which is {}, was not waited for", status.as_str());
                Err(self.wrong(&url, reason))
            }
        }
    }

    /// A rollout, if it is known.
    pub async fn rollout(&self, rollout_id: &str) -> Result<Option<Rollout>, ServerError> {
        self.get(&self.route(&["v1", "agl", "rollouts", rollout_id])).await
    }

    /// The attempts at a rollout, in order.
    pub async fn attempts(&self, rollout_id: &str) -> Result<Vec<Attempt>, ServerError> {
        let url = self.route(&["v1", "agl", "rollouts", rollout_id, "attempts"]);
        let attempts = self.get::<Paginated<Attempt>>(&url).await?.items;
        match attempts.iter().find(|attempt| attempt.rollout_id != rollout_id) {
            None => Ok(attempts),
            Some(other) => Err(self.wrong(&url, format!("it is of rollout {}", other.rollout_id))),
        }
    }

    /// What was sampled in all attempts at a rollout, in the order of recording.
    pub async fn generations(&self, rollout_id: &str) -> Result<Vec<Generation>, ServerError> {
        let mut generations = Vec::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            let mut url = self.route(&["v1", "fulgurite", "generations"]);
            url.query_pairs_mut().append_pair("rollout_id", rollout_id).append_pair("offset", &from.to_string());
            let page: GenerationsPage = self.get(&url).await?;
            if page.next_offset.is_some_and(|next| next <= from) {
                return Err(self.wrong(&url, "its next page is no later one"));
            }
            for packed in page.items {
                let generation = Generation::try_from(packed).map_err(|error| self.wrong(&url, error.to_string()))?;
                if generation.rollout_id != rollout_id {
                    return Err(self.wrong(&url, format!("it is of rollout {}", generation.rollout_id)));
                }
                generations.push(generation);
            }
            offset = page.next_offset;
        }
        Ok(generations)
    }

    /// The rewards of an attempt, in the order in which they were given.
    pub async fn rewards(&self, rollout_id: &str, attempt_id: &str) -> Result<Vec<RecordedReward>, ServerError> {
        let path = ["v1", "fulgurite", "rollouts", rollout_id, "attempts", attempt_id, "rewards"];
        let url = self.route(&path);
        let rewards: Vec<RecordedReward> = self.get(&url).await?;
        match rewards.iter().find(|reward| reward.attempt_id != attempt_id || !reward.reward.value.is_finite()) {
            None => Ok(rewards),
            Some(other) => Err(self.wrong(&url, format!("the reward {} cannot be its", other.span_id))),
        }
    }

    /// Up to `limit` attempts that were rewarded as a whole after the place `after`, in the order of their rewards.
    pub async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts, ServerError> {
        let mut url = self.route(&["v1", "fulgurite", "rewarded-attempts"]);
        url.query_pairs_mut().append_pair("after", &after.to_string()).append_pair("limit", &limit.to_string());
        let rewarded: RewardedAttempts = self.get(&url).await?;
        match rewarded.next_after >= after && rewarded.items.len() as u64 <= limit {
            true => Ok(rewarded),
            false => Err(self.wrong(&url, "it is another part than was asked for")),
        }
    }

    /// Stores what agents are told, under an id.
    pub async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), ServerError> {
        let url = self.route(&["v1", "agl", "resources", resources_id]);
        self.tell(&url, &resources).await
    }
}
