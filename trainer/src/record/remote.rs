//! The record of a server, over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use fulgurite_client::Server;
use fulgurite_types::{
    Checkpoint, GenerationUse, LedgerRow, NamedWeights, NewNamedWeights, NewReward, NewRollout, NewRun, Object,
    Publication, RewardedAttempts, Rollout, RolloutRecord, Run, RunClaim, RunLease, Step, StepRecord,
    UnaccountedGeneration,
};

use super::error::RecordError;
use super::methods::Record;

/// The record of a server.
#[derive(Clone)]
pub struct RemoteRecord {
    server: Server,
}

impl RemoteRecord {
    /// The record that `server` keeps.
    pub fn new(server: Server) -> Self {
        Self { server }
    }

    /// A key with which agents may call models there, and nothing else.
    pub async fn model_calls_key(&self) -> Result<String, RecordError> {
        Ok(self.server.model_calls_key().await?)
    }
}

#[async_trait]
impl Record for RemoteRecord {
    async fn create_run(&self, run: NewRun) -> Result<Run, RecordError> {
        Ok(self.server.create_run(run).await?)
    }

    async fn run(&self, run_id: &str) -> Result<Option<Run>, RecordError> {
        Ok(self.server.run(run_id).await?)
    }

    async fn enqueue_rollouts(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>, RecordError> {
        Ok(self.server.enqueue_rollouts(rollouts).await?)
    }

    async fn wait_for_rollouts(&self, rollout_ids: &[String], timeout: Duration) -> Result<Vec<Rollout>, RecordError> {
        Ok(self.server.wait_for_rollouts(rollout_ids, timeout).await?)
    }

    async fn rollout(&self, rollout_id: &str) -> Result<Option<Rollout>, RecordError> {
        Ok(self.server.rollout(rollout_id).await?)
    }

    async fn rollout_records(&self, rollout_ids: &[String]) -> Result<Vec<Option<RolloutRecord>>, RecordError> {
        Ok(self.server.rollout_records(rollout_ids).await?)
    }

    async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts, RecordError> {
        Ok(self.server.rewarded_attempts(after, limit).await?)
    }

    async fn give_rewards(&self, rewards: Vec<NewReward>) -> Result<(), RecordError> {
        for reward in &rewards {
            self.server.give_reward(reward).await?;
        }
        Ok(())
    }

    async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), RecordError> {
        Ok(self.server.update_resources(resources_id, resources).await?)
    }

    async fn release_worker(&self, worker_id: &str) -> Result<(), RecordError> {
        Ok(self.server.release_worker(worker_id).await?)
    }

    async fn name_weights(&self, new: NewNamedWeights) -> Result<NamedWeights, RecordError> {
        Ok(self.server.name_weights(&new).await?)
    }

    async fn named_weights(&self, model: &str, run_id: Option<&str>) -> Result<Vec<NamedWeights>, RecordError> {
        Ok(self.server.named_weights(model, run_id).await?)
    }

    async fn publication(&self, model: &str) -> Result<Option<Publication>, RecordError> {
        Ok(self.server.publication(model).await?)
    }

    async fn trained_elsewhere(&self, run_id: &str, generation_ids: &[String]) -> Result<Vec<String>, RecordError> {
        Ok(self.server.trained_elsewhere(run_id, generation_ids).await?)
    }

    async fn record_step(&self, record: StepRecord) -> Result<(), RecordError> {
        Ok(self.server.record_step(record).await?)
    }

    async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<(), RecordError> {
        Ok(self.server.record_uses(run_id, uses).await?)
    }

    async fn rewind_run(&self, run_id: &str, to_step: u64) -> Result<(), RecordError> {
        Ok(self.server.rewind_run(run_id, to_step).await?)
    }

    async fn allow_steps(&self, run_id: &str, steps: Option<u64>) -> Result<(), RecordError> {
        Ok(self.server.allow_steps(run_id, steps).await?)
    }

    async fn claim_run(&self, claim: RunClaim) -> Result<Option<RunLease>, RecordError> {
        Ok(self.server.claim_run(&claim).await?)
    }

    async fn steps(&self, run_id: &str) -> Result<Vec<Step>, RecordError> {
        Ok(self.server.steps(run_id).await?)
    }

    async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>, RecordError> {
        Ok(self.server.checkpoints(run_id).await?)
    }

    async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>, RecordError> {
        Ok(self.server.token_ledger(run_id).await?)
    }

    async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>, RecordError> {
        Ok(self.server.unaccounted_generations(run_id).await?)
    }
}
