//! The record of the store of this process. Reads are repeated while its database is away; the store's writes are so by
//! themselves.

use std::time::Duration;

use async_trait::async_trait;
use fulgurite_store::{Sender, Store};
use fulgurite_types::{
    Checkpoint, GenerationUse, LedgerRow, NamedWeights, NewNamedWeights, NewReward, NewRollout, NewRun, Object,
    Publication, RewardedAttempts, Rollout, RolloutRecord, Run, RunClaim, RunLease, Step, StepRecord,
    UnaccountedGeneration,
};

use super::error::RecordError;
use super::methods::Record;

#[async_trait]
impl Record for Store {
    async fn create_run(&self, run: NewRun) -> Result<Run, RecordError> {
        Ok(self.runs().create(run).await?)
    }

    async fn run(&self, run_id: &str) -> Result<Option<Run>, RecordError> {
        Ok(self.patiently(|| self.runs().get(run_id)).await?)
    }

    async fn enqueue_rollouts(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>, RecordError> {
        Ok(self.rollouts().enqueue(rollouts).await?)
    }

    async fn wait_for_rollouts(&self, rollout_ids: &[String], timeout: Duration) -> Result<Vec<Rollout>, RecordError> {
        Ok(self.patiently(|| self.rollouts().wait_for(rollout_ids, Some(timeout))).await?)
    }

    async fn rollout(&self, rollout_id: &str) -> Result<Option<Rollout>, RecordError> {
        let found = self.patiently(|| self.rollouts().get(rollout_id)).await?;
        Ok(found.map(|(rollout, _)| rollout))
    }

    async fn rollout_records(&self, rollout_ids: &[String]) -> Result<Vec<Option<RolloutRecord>>, RecordError> {
        let mut records = Vec::with_capacity(rollout_ids.len());
        for rollout_id in rollout_ids {
            records.push(self.patiently(|| self.queries().rollout_record(rollout_id, None)).await?);
        }
        Ok(records)
    }

    async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts, RecordError> {
        Ok(self.patiently(|| self.rewards().rewarded_attempts(after, limit)).await?)
    }

    async fn give_rewards(&self, rewards: Vec<NewReward>) -> Result<(), RecordError> {
        for reward in rewards {
            self.rewards().give(&Sender::Server, reward).await?;
        }
        Ok(())
    }

    async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), RecordError> {
        self.resources().update(Some(resources_id), resources).await?;
        Ok(())
    }

    async fn release_worker(&self, worker_id: &str) -> Result<(), RecordError> {
        self.workers().release(worker_id).await?;
        Ok(())
    }

    async fn name_weights(&self, new: NewNamedWeights) -> Result<NamedWeights, RecordError> {
        Ok(self.weights().name(new).await?)
    }

    async fn named_weights(&self, model: &str, run_id: Option<&str>) -> Result<Vec<NamedWeights>, RecordError> {
        Ok(self.patiently(|| self.weights().named(model, run_id)).await?)
    }

    async fn publication(&self, model: &str) -> Result<Option<Publication>, RecordError> {
        Ok(self.patiently(|| self.weights().publication(model)).await?)
    }

    async fn trained_elsewhere(&self, run_id: &str, generation_ids: &[String]) -> Result<Vec<String>, RecordError> {
        Ok(self.patiently(|| self.runs().trained_elsewhere(run_id, generation_ids)).await?)
    }

    async fn record_step(&self, record: StepRecord) -> Result<(), RecordError> {
        Ok(self.runs().record_step(record).await?)
    }

    async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<(), RecordError> {
        Ok(self.runs().record_uses(run_id, uses).await?)
    }

    async fn rewind_run(&self, run_id: &str, to_step: u64) -> Result<(), RecordError> {
        Ok(self.runs().rewind(run_id, to_step).await?)
    }

    async fn allow_steps(&self, run_id: &str, steps: Option<u64>) -> Result<(), RecordError> {
        Ok(self.runs().allow_steps(run_id, steps).await?)
    }

    async fn claim_run(&self, claim: RunClaim) -> Result<Option<RunLease>, RecordError> {
        Ok(Some(self.runs().claim(claim).await?))
    }

    async fn steps(&self, run_id: &str) -> Result<Vec<Step>, RecordError> {
        Ok(self.patiently(|| self.runs().steps(run_id)).await?)
    }

    async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>, RecordError> {
        Ok(self.patiently(|| self.runs().checkpoints(run_id)).await?)
    }

    async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>, RecordError> {
        Ok(self.patiently(|| self.runs().token_ledger(run_id)).await?)
    }

    async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>, RecordError> {
        Ok(self.patiently(|| self.runs().unaccounted_generations(run_id)).await?)
    }
}
