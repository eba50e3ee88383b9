//! What a trainer asks of a server about rollouts and what was recorded of them.

use std::collections::HashSet;
use std::time::Duration;

use fulgurite_types::{
    AttemptRef, Generation, NewReward, NewRollout, Object, PackedGeneration, PackedRolloutRecord, RecordedReward,
    Reward, RewardedAttempts, Rollout, RolloutRecord,
};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{Server, ServerError};

/// How long one request waits for rollouts at most; whoever wants to wait longer asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Rollouts that one request asks for.
const RECORDS_PER_REQUEST: usize = 1000;

#[derive(Deserialize)]
struct RecordsPage {
    items: Vec<Option<PackedRolloutRecord>>,
}

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
        let requested = rollouts.iter().map(|rollout| rollout.rollout_id.as_ref());
        match enqueued.iter().map(|rollout| Some(&rollout.rollout_id)).eq(requested) {
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
        let requested: HashSet<&String> = rollout_ids.iter().collect();
        match ended.iter().find(|rollout| !requested.contains(&rollout.rollout_id) || !rollout.status.is_finished()) {
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

    /// Rollouts with all that was recorded of them, in the order of their ids; `None` for one that is not there. However many
    /// there are, it takes few requests.
    pub async fn rollout_records(&self, rollout_ids: &[String]) -> Result<Vec<Option<RolloutRecord>>, ServerError> {
        let url = self.route(&["v1", "fulgurite", "rollouts", "records"]);
        let mut records = Vec::with_capacity(rollout_ids.len());
        while records.len() < rollout_ids.len() {
            let (_, left) = rollout_ids.split_at(records.len());
            let left = left.get(..RECORDS_PER_REQUEST).unwrap_or(left);
            let page: RecordsPage = self.post(&url, &json!({ "rollout_ids": left })).await?;
            if page.items.is_empty() || page.items.len() > left.len() {
                let reason = format!("it has {} records of {} rollouts", page.items.len(), left.len());
                return Err(self.wrong(&url, reason));
            }
            for (rollout_id, item) in left.iter().zip(page.items) {
                records.push(match item {
                    Some(packed) => Some(self.whole_record(&url, rollout_id, packed).await?),
                    None => None,
                });
            }
        }
        Ok(records)
    }

    /// A record that may be that rollout's, with the generations that its answer had no room for.
    async fn whole_record(
        &self,
        url: &Url,
        rollout_id: &str,
        packed: PackedRolloutRecord,
    ) -> Result<RolloutRecord, ServerError> {
        let PackedRolloutRecord { rollout, attempts, rewards, generations, next_offset } = packed;
        let others = attempts.iter().map(|attempt| &attempt.rollout_id).chain([&rollout.rollout_id]);
        if let Some(other) = others.into_iter().find(|id| *id != rollout_id) {
            return Err(self.wrong(url, format!("it is of rollout {other}")));
        }
        let last = attempts.last().map(|attempt| &attempt.attempt_id);
        let is_wrong = |reward: &&RecordedReward| Some(&reward.attempt_id) != last || !reward.reward.value.is_finite();
        if let Some(other) = rewards.iter().find(is_wrong) {
            return Err(self.wrong(url, format!("the reward {} cannot be its", other.span_id)));
        }
        let mut generations = self.unpack(url, rollout_id, generations)?;
        let mut next = next_offset;
        while let Some(from) = next {
            let mut url = self.route(&["v1", "fulgurite", "generations"]);
            url.query_pairs_mut().append_pair("rollout_id", rollout_id).append_pair("offset", &from.to_string());
            let page: GenerationsPage = self.get(&url).await?;
            if page.next_offset.is_some_and(|next| next <= from) {
                return Err(self.wrong(&url, "its next page is no later one"));
            }
            generations.extend(self.unpack(&url, rollout_id, page.items)?);
            next = page.next_offset;
        }
        Ok(RolloutRecord { rollout, attempts, rewards, generations })
    }

    fn unpack(
        &self,
        url: &Url,
        rollout_id: &str,
        packed: Vec<PackedGeneration>,
    ) -> Result<Vec<Generation>, ServerError> {
        let mut generations = Vec::with_capacity(packed.len());
        for packed in packed {
            let generation = Generation::try_from(packed).map_err(|error| self.wrong(url, error.to_string()))?;
            if generation.rollout_id != rollout_id {
                return Err(self.wrong(url, format!("it is of rollout {}", generation.rollout_id)));
            }
            generations.push(generation);
        }
        Ok(generations)
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

    /// Gives a reward to an attempt, or to one of its generations, in the name of its giver, which takes the admin key where
    /// there is one. However often it is sent, it is given once. The rollout may be named as a session's client names it.
    pub async fn give_reward(&self, new: &NewReward) -> Result<RecordedReward, ServerError> {
        let (kind, id) = match (&new.generation_id, &new.attempt) {
            (Some(generation_id), _) => ("generation", generation_id.as_str()),
            (None, Some(AttemptRef::Id(attempt_id))) => ("attempt", attempt_id.as_str()),
            (None, Some(AttemptRef::Latest) | None) => ("attempt", "latest"),
        };
        let url = self.route(&["rollout", &new.rollout_id, kind, id, "reward"]);
        let Reward { value, name, components } = &new.reward;
        let components: Map<String, Value> =
            components.iter().map(|(name, component)| (name.clone(), (*component).into())).collect();
        let body = json!({ "value": value, "name": name, "components": components, "giver": new.giver });
        let request = self.request(Method::POST, &url).json(&body);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        self.send(&url, request).await?.read(&url)
    }

    /// Stores what agents are told, under an id.
    pub async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), ServerError> {
        let url = self.route(&["v1", "agl", "resources", resources_id]);
        self.tell(&url, &resources).await
    }
}
