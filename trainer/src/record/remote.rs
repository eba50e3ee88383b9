//! The record of a server, over HTTP.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::{
    Attempt, Checkpoint, Generation, GenerationUse, LedgerRow, NewRollout, NewRun, Object, PackedGeneration, Paginated,
    RecordedReward, RewardedAttempts, Rollout, Run, Step, StepRecord, UnaccountedGeneration,
};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::server::Server;
use super::{Record, RecordError};

/// How long one request waits for rollouts at most; whoever wants to wait longer asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Seconds that a key lives which is issued to agents: longer than a run lasts.
const KEY_SECONDS: u64 = 90 * 24 * 3600;

/// Uses in one request: few megabytes, where servers take tens.
const USES_PER_REQUEST: usize = 20_000;

/// The record of a server. What is written carries ids of its own, so that a request whose answer was lost is sent again
/// and counts once.
#[derive(Clone)]
pub struct RemoteRecord {
    server: Server,
}

#[derive(Deserialize)]
struct GenerationsPage {
    items: Vec<PackedGeneration>,
    next_offset: Option<u64>,
}

#[derive(Deserialize)]
struct IssuedKey {
    key: String,
}

impl RemoteRecord {
    /// The record that `server` keeps.
    pub fn new(server: Server) -> Self {
        Self { server }
    }

    /// A key with which agents may call models there, and nothing else.
    pub async fn model_calls_key(&self) -> Result<String, RecordError> {
        let url = self.server.route(&["v1", "fulgurite", "keys", "model-calls"]);
        let issued: IssuedKey = self.server.post(&url, &json!({ "seconds": KEY_SECONDS })).await?;
        Ok(issued.key)
    }

    fn run_route(&self, run_id: &str, more: &[&str]) -> reqwest::Url {
        self.server.route(&[&["v1", "fulgurite", "runs", run_id], more].concat())
    }
}

#[async_trait]
impl Record for RemoteRecord {
    async fn create_run(&self, run: NewRun) -> Result<Run, RecordError> {
        let url = self.server.route(&["v1", "fulgurite", "runs"]);
        let created: Run = self.server.post(&url, &run).await?;
        match created.run_id == run.run_id {
            true => Ok(created),
            false => Err(self.server.wrong(&url, format!("it is of run {}", created.run_id))),
        }
    }

    async fn run(&self, run_id: &str) -> Result<Option<Run>, RecordError> {
        Ok(self.server.find(&self.run_route(run_id, &[])).await?)
    }

    async fn enqueue_rollouts(&self, mut rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>, RecordError> {
        for rollout in &mut rollouts {
            rollout.rollout_id.get_or_insert_with(|| format!("ro-{}", Uuid::now_v7().simple()));
        }
        let url = self.server.route(&["v1", "agl", "queues", "rollouts", "enqueue"]);
        let enqueued: Vec<Rollout> = self.server.post(&url, &json!({ "rollouts": rollouts })).await?;
        let asked = rollouts.iter().map(|rollout| rollout.rollout_id.as_ref());
        match enqueued.iter().map(|rollout| Some(&rollout.rollout_id)).eq(asked) {
            true => Ok(enqueued),
            false => Err(self.server.wrong(&url, "its rollouts are not those that were enqueued")),
        }
    }

    async fn wait_for_rollouts(&self, rollout_ids: &[String], timeout: Duration) -> Result<Vec<Rollout>, RecordError> {
        let url = self.server.route(&["v1", "agl", "waits", "rollouts"]);
        let timeout = timeout.min(LONGEST_WAIT).as_secs_f64();
        let ended: Vec<Rollout> =
            self.server.post(&url, &json!({ "rollout_ids": rollout_ids, "timeout": timeout })).await?;
        let asked: HashSet<&String> = rollout_ids.iter().collect();
        match ended.iter().find(|rollout| !asked.contains(&rollout.rollout_id) || !rollout.status.is_finished()) {
            None => Ok(ended),
            Some(other) => {
                let Rollout { rollout_id, status, .. } = other;
                let reason = format!("rollout {rollout_id}, which is {}, was not waited for", status.as_str());
                Err(self.server.wrong(&url, reason))
            }
        }
    }

    async fn rollout(&self, rollout_id: &str) -> Result<Option<Rollout>, RecordError> {
        Ok(self.server.get(&self.server.route(&["v1", "agl", "rollouts", rollout_id])).await?)
    }

    async fn attempts(&self, rollout_id: &str) -> Result<Vec<Attempt>, RecordError> {
        let url = self.server.route(&["v1", "agl", "rollouts", rollout_id, "attempts"]);
        let attempts = self.server.get::<Paginated<Attempt>>(&url).await?.items;
        match attempts.iter().find(|attempt| attempt.rollout_id != rollout_id) {
            None => Ok(attempts),
            Some(other) => Err(self.server.wrong(&url, format!("it is of rollout {}", other.rollout_id))),
        }
    }

    async fn generations(&self, rollout_id: &str) -> Result<Vec<Generation>, RecordError> {
        let mut generations = Vec::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            let mut url = self.server.route(&["v1", "fulgurite", "generations"]);
            url.query_pairs_mut().append_pair("rollout_id", rollout_id).append_pair("offset", &from.to_string());
            let page: GenerationsPage = self.server.get(&url).await?;
            if page.next_offset.is_some_and(|next| next <= from) {
                return Err(self.server.wrong(&url, "its next page is no later one"));
            }
            for packed in page.items {
                let generation =
                    Generation::try_from(packed).map_err(|error| self.server.wrong(&url, error.to_string()))?;
                if generation.rollout_id != rollout_id {
                    return Err(self.server.wrong(&url, format!("it is of rollout {}", generation.rollout_id)));
                }
                generations.push(generation);
            }
            offset = page.next_offset;
        }
        Ok(generations)
    }

    async fn rewards(&self, rollout_id: &str, attempt_id: &str) -> Result<Vec<RecordedReward>, RecordError> {
        let path = ["v1", "fulgurite", "rollouts", rollout_id, "attempts", attempt_id, "rewards"];
        let url = self.server.route(&path);
        let rewards: Vec<RecordedReward> = self.server.get(&url).await?;
        match rewards.iter().find(|reward| reward.attempt_id != attempt_id || !reward.reward.value.is_finite()) {
            None => Ok(rewards),
            Some(other) => Err(self.server.wrong(&url, format!("the reward {} cannot be its", other.span_id))),
        }
    }

    async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts, RecordError> {
        let mut url = self.server.route(&["v1", "fulgurite", "rewarded-attempts"]);
        url.query_pairs_mut().append_pair("after", &after.to_string()).append_pair("limit", &limit.to_string());
        let rewarded: RewardedAttempts = self.server.get(&url).await?;
        match rewarded.next_after >= after && rewarded.items.len() as u64 <= limit {
            true => Ok(rewarded),
            false => Err(self.server.wrong(&url, "it is another part than was asked for")),
        }
    }

    async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), RecordError> {
        let url = self.server.route(&["v1", "agl", "resources", resources_id]);
        Ok(self.server.tell(&url, &resources).await?)
    }

    async fn release_worker(&self, worker_id: &str) -> Result<(), RecordError> {
        let url = self.server.route(&["v1", "fulgurite", "workers", worker_id, "release"]);
        Ok(self.server.tell(&url, &json!({})).await?)
    }

    async fn record_step(&self, record: StepRecord) -> Result<(), RecordError> {
        let url = self.run_route(&record.run_id, &["steps"]);
        let mut body = json!(record);
        // The path says it.
        body.as_object_mut().and_then(|body| body.remove("run_id"));
        let told: Step = self.server.post(&url, &body).await?;
        match (told.run_id == record.run_id, told.step == record.step) {
            (true, true) => Ok(()),
            _ => Err(self.server.wrong(&url, format!("it is of step {} of run {}", told.step, told.run_id))),
        }
    }

    async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<(), RecordError> {
        let url = self.run_route(run_id, &["uses"]);
        for uses in uses.chunks(USES_PER_REQUEST) {
            self.server.tell(&url, &json!({ "uses": uses })).await?;
        }
        Ok(())
    }

    async fn rewind_run(&self, run_id: &str, to_step: u64) -> Result<(), RecordError> {
        Ok(self.server.tell(&self.run_route(run_id, &["rewind"]), &json!({ "to_step": to_step })).await?)
    }

    async fn steps(&self, run_id: &str) -> Result<Vec<Step>, RecordError> {
        let url = self.run_route(run_id, &["steps"]);
        let steps: Vec<Step> = self.server.get(&url).await?;
        match steps.iter().find(|step| step.run_id != run_id) {
            None => Ok(steps),
            Some(other) => Err(self.server.wrong(&url, format!("it is of run {}", other.run_id))),
        }
    }

    async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>, RecordError> {
        let url = self.run_route(run_id, &["checkpoints"]);
        let checkpoints: Vec<Checkpoint> = self.server.get(&url).await?;
        match checkpoints.iter().find(|checkpoint| checkpoint.run_id != run_id) {
            None => Ok(checkpoints),
            Some(other) => Err(self.server.wrong(&url, format!("it is of run {}", other.run_id))),
        }
    }

    async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>, RecordError> {
        Ok(self.server.get(&self.run_route(run_id, &["ledger"])).await?)
    }

    async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>, RecordError> {
        Ok(self.server.get(&self.run_route(run_id, &["unaccounted"])).await?)
    }
}
