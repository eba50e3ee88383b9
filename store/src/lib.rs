//! Rollouts, attempts, spans, generations and runs in SQL, and the REST API over them.
//!
//! ```text
//! Store::open(url: &str, options: StoreOptions) -> Result<Store>
//! Store::open_read_only(url: &str) -> Result<Store>
//! close(&self)
//! commits(&self) -> u64
//!
//! enqueue_rollouts(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>>
//! start_rollout(&self, rollout: NewRollout, worker_id: Option<&str>) -> Result<AttemptedRollout>
//! start_attempt(&self, rollout_id: &str, worker_id: Option<&str>) -> Result<AttemptedRollout>
//! dequeue_rollouts(&self, limit: usize, worker_id: Option<&str>, wait: Duration) -> Result<Vec<AttemptedRollout>>
//! get_rollout(&self, rollout_id: &str) -> Result<Option<(Rollout, Option<Attempt>)>>
//! query_rollouts(&self, filter: &RolloutFilter) -> Result<Paginated<(Rollout, Option<Attempt>)>>
//! update_rollout(&self, rollout_id: &str, update: RolloutUpdate) -> Result<Rollout>
//! wait_for_rollouts(&self, rollout_ids: &[String], timeout: Option<Duration>) -> Result<Vec<Rollout>>
//! get_attempt(&self, rollout_id: &str, attempt: impl Into<AttemptRef>) -> Result<Option<Attempt>>
//! attempts(&self, rollout_id: &str) -> Result<Vec<Attempt>>
//! update_attempt(&self, rollout_id: &str, attempt: impl Into<AttemptRef>, update: AttemptUpdate) -> Result<Attempt>
//! report_attempt(&self, rollout_id: &str, attempt_id: &str, update: AttemptUpdate) -> Result<Attempt>
//! heartbeat_attempts(&self, attempts: Vec<(String, String)>) -> Result<()>
//! scan_watchdog(&self) -> Result<Vec<Attempt>>; spawn_watchdog(&self, interval: Duration) -> JoinHandle<()>
//! worker(&self, worker_id: &str) -> Result<Option<Worker>>; query_workers(&self, &WorkerFilter)
//! update_worker(&self, worker_id: &str, heartbeat_stats: Option<Object>) -> Result<Worker>
//! release_worker(&self, worker_id: &str) -> Result<Vec<Attempt>>
//!
//! record_generation(&self, generation: NewGeneration) -> Result<RecordedGeneration>
//! mark_client_gone(&self, generation_id: &str) -> Result<()>
//! generations(&self, filter: &GenerationFilter) -> Result<Vec<Generation>>
//! add_spans(&self, spans: Vec<Span>) -> Result<Vec<Option<Span>>>
//! query_spans(&self, filter: &SpanFilter) -> Result<Paginated<Span>>
//! next_sequence_id(&self, rollout_id: &str) -> Result<u64>
//! add_reward(&self, rollout_id: &str, attempt: impl Into<AttemptRef>, generation_id: Option<&str>, reward: Reward)
//!     -> Result<RecordedReward>
//! rewards(&self, rollout_id: &str, attempt: impl Into<AttemptRef>) -> Result<Vec<RecordedReward>>
//!
//! create_run(&self, run: NewRun) -> Result<Run>; run(&self, run_id: &str) -> Result<Option<Run>>; runs(&self)
//! record_step(&self, step: StepRecord) -> Result<()>; steps(&self, run_id: &str) -> Result<Vec<Step>>
//! latest_checkpoint(&self, run_id: &str) -> Result<Option<Checkpoint>>; checkpoints(&self, run_id: &str)
//! rewind_run(&self, run_id: &str, to_step: u64) -> Result<()>
//! record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<()>
//! token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>>
//! ```

mod error;
pub mod model;

pub use error::{Result, StoreError};
