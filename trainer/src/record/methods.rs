use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::{
    Checkpoint, GenerationUse, LedgerRow, NamedWeights, NewNamedWeights, NewReward, NewRollout, NewRun, Object,
    Publication, RewardedAttempts, Rollout, RolloutRecord, Run, RunClaim, RunLease, Step, StepRecord,
    UnaccountedGeneration,
};

use super::error::RecordError;

/// Rollouts, what was recorded of them, and the run's own steps, as a training loop needs them.
///
/// The methods do what those of [`Store`](fulgurite_store::Store) of the same name do.
#[async_trait]
pub trait Record: Send + Sync + 'static {
    /// Begins a run.
    async fn create_run(&self, run: NewRun) -> Result<Run, RecordError>;

    /// A run, if it is known.
    async fn run(&self, run_id: &str) -> Result<Option<Run>, RecordError>;

    /// Puts rollouts at the end of the queue, in order.
    async fn enqueue_rollouts(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>, RecordError>;

    /// Waits until all of these rollouts have ended, or for `timeout`; gives those that have.
    async fn wait_for_rollouts(&self, rollout_ids: &[String], timeout: Duration) -> Result<Vec<Rollout>, RecordError>;

    /// A rollout, if it is known.
    async fn rollout(&self, rollout_id: &str) -> Result<Option<Rollout>, RecordError>;

    /// Rollouts with all that was recorded of them, in the order of their ids; `None` for one that is not there.
    async fn rollout_records(&self, rollout_ids: &[String]) -> Result<Vec<Option<RolloutRecord>>, RecordError>;

    /// Up to `limit` attempts that were rewarded as a whole after the place `after`, in the order of their rewards.
    async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts, RecordError>;

    /// Gives rewards to attempts, each in the name of its giver.
    async fn give_rewards(&self, rewards: Vec<NewReward>) -> Result<(), RecordError>;

    /// Stores what agents are told, under an id.
    async fn update_resources(&self, resources_id: &str, resources: Object) -> Result<(), RecordError>;

    /// Takes back what a worker holds: its rollouts go back to the queue if they may be tried again.
    async fn release_worker(&self, worker_id: &str) -> Result<(), RecordError>;

    /// Gives weights a version, which names them for ever; weights that have one keep it.
    async fn name_weights(&self, new: NewNamedWeights) -> Result<NamedWeights, RecordError>;

    /// All weights of a model that have a version; those of one run alone if it is given.
    async fn named_weights(&self, model: &str, run_id: Option<&str>) -> Result<Vec<NamedWeights>, RecordError>;

    /// The newest publication of a model, if there was one.
    async fn publication(&self, model: &str) -> Result<Option<Publication>, RecordError>;

    /// Those of some generations that another run than this one has trained.
    async fn trained_elsewhere(&self, run_id: &str, generation_ids: &[String]) -> Result<Vec<String>, RecordError>;

    /// Records a step with what became of the tokens that it consumed, and its checkpoint.
    async fn record_step(&self, record: StepRecord) -> Result<(), RecordError>;

    /// Records what became of tokens outside of any step.
    async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<(), RecordError>;

    /// Takes a run back to the end of `to_step`.
    async fn rewind_run(&self, run_id: &str, to_step: u64) -> Result<(), RecordError>;

    /// Has a run wait once it has made so many updates, or go on to so many; with `None` it waits no more.
    async fn allow_steps(&self, run_id: &str, steps: Option<u64>) -> Result<(), RecordError>;

    /// Asks for a run for a process, or renews what it has; the lease that is in force then names who has the run. `None`
    /// where that is not recorded.
    async fn claim_run(&self, claim: RunClaim) -> Result<Option<RunLease>, RecordError>;

    /// The steps of a run, in order.
    async fn steps(&self, run_id: &str) -> Result<Vec<Step>, RecordError>;

    /// The checkpoints of a run, in order.
    async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>, RecordError>;

    /// Where all sampled tokens there are went, as a run sees it.
    async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>, RecordError>;

    /// Every generation there is of which a run has not said what became of it, oldest first.
    async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>, RecordError>;

    /// The last checkpoint of a run, if it has one.
    async fn latest_checkpoint(&self, run_id: &str) -> Result<Option<Checkpoint>, RecordError> {
        Ok(self.checkpoints(run_id).await?.pop())
    }
}
