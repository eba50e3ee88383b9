//! What a trainer asks of a server about its run.

use std::time::Duration;

use fulgurite_types::{
    Checkpoint, GenerationUse, LedgerRow, NewRun, OtherCallers, Run, RunClaim, RunLease, Step, StepRecord,
    UnaccountedGeneration,
};
use serde::Deserialize;
use serde_json::json;

use crate::{Server, ServerError};

/// Seconds that a key lives which is issued to agents: longer than a run lasts.
const KEY_SECONDS: u64 = 90 * 24 * 3600;

/// Uses in one request: few megabytes, where servers take tens.
const USES_PER_REQUEST: usize = 20_000;

#[derive(Deserialize)]
struct IssuedKey {
    key: String,
}

#[derive(Deserialize)]
struct StoreUrl {
    url: String,
}

#[derive(Deserialize)]
struct WorkerName {
    name: Option<String>,
}

/// What is written carries ids of its own, so that a request whose answer was lost is sent again and counts once.
impl Server {
    /// A key with which agents may call models there, and nothing else.
    pub async fn model_calls_key(&self) -> Result<String, ServerError> {
        let url = self.route(&["v1", "fulgurite", "keys", "model-calls"]);
        let issued: IssuedKey = self.post(&url, &json!({ "seconds": KEY_SECONDS })).await?;
        Ok(issued.key)
    }

    /// A key with which runners of a name may take rollouts there, and speak for those that they took.
    pub async fn worker_key(&self, name: &str, seconds: u64) -> Result<String, ServerError> {
        let url = self.route(&["v1", "fulgurite", "keys", "worker"]);
        let issued: IssuedKey = self.post(&url, &json!({ "name": name, "seconds": seconds })).await?;
        Ok(issued.key)
    }

    /// A key that reads everything there and changes nothing.
    pub async fn reader_key(&self, seconds: u64) -> Result<String, ServerError> {
        let url = self.route(&["v1", "fulgurite", "keys", "reader"]);
        let issued: IssuedKey = self.post(&url, &json!({ "seconds": seconds })).await?;
        Ok(issued.key)
    }

    /// The name of the workers whose key this client has, if it has a worker's.
    pub async fn worker_name(&self) -> Result<Option<String>, ServerError> {
        let url = self.route(&["v1", "fulgurite", "worker"]);
        let worker: WorkerName = self.get(&url).await?;
        Ok(worker.name)
    }

    /// Where its store is, as it is seen from there, and without a password.
    pub async fn store_url(&self) -> Result<String, ServerError> {
        let url = self.route(&["v1", "fulgurite", "store"]);
        let store: StoreUrl = self.get(&url).await?;
        Ok(store.url)
    }

    /// Begins a run.
    pub async fn create_run(&self, run: NewRun) -> Result<Run, ServerError> {
        let url = self.route(&["v1", "fulgurite", "runs"]);
        let created: Run = self.post(&url, &run).await?;
        match created.run_id == run.run_id {
            true => Ok(created),
            false => Err(self.wrong(&url, format!("it is of run {}", created.run_id))),
        }
    }

    /// A run, if it is known.
    pub async fn run(&self, run_id: &str) -> Result<Option<Run>, ServerError> {
        self.find(&self.run_route(run_id, &[])).await
    }

    /// Records a step with what became of the tokens that it consumed, and its checkpoint.
    pub async fn record_step(&self, record: StepRecord) -> Result<(), ServerError> {
        let url = self.run_route(&record.run_id, &["steps"]);
        let mut body = json!(record);
        // The path says it.
        body.as_object_mut().and_then(|body| body.remove("run_id"));
        let recorded: Step = self.post(&url, &body).await?;
        match (recorded.run_id == record.run_id, recorded.step == record.step) {
            (true, true) => Ok(()),
            _ => Err(self.wrong(&url, format!("it is of step {} of run {}", recorded.step, recorded.run_id))),
        }
    }

    /// Records what became of tokens outside of any step.
    pub async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<(), ServerError> {
        let url = self.run_route(run_id, &["uses"]);
        for uses in uses.chunks(USES_PER_REQUEST) {
            self.tell(&url, &json!({ "uses": uses })).await?;
        }
        Ok(())
    }

    /// Takes a run back to the end of `to_step`.
    pub async fn rewind_run(&self, run_id: &str, to_step: u64) -> Result<(), ServerError> {
        self.tell(&self.run_route(run_id, &["rewind"]), &json!({ "to_step": to_step })).await
    }

    /// Has a run wait once it has made so many updates, or go on to so many; with `None` it waits no more.
    pub async fn allow_steps(&self, run_id: &str, steps: Option<u64>) -> Result<(), ServerError> {
        self.tell(&self.run_route(run_id, &["allowed-steps"]), &json!({ "steps": steps })).await
    }

    /// Asks for a run for a process, or renews what it has; the lease that is in force then names who has the run. `None` of
    /// servers of earlier releases, which do not know who has a run.
    pub async fn claim_run(&self, claim: &RunClaim) -> Result<Option<RunLease>, ServerError> {
        let url = self.run_route(&claim.run_id, &["lease"]);
        let RunClaim { run_id, owner, seconds, ended_owner } = claim;
        let body = json!({ "owner": owner, "seconds": seconds, "ended_owner": ended_owner });
        match self.post::<RunLease>(&url, &body).await {
            Ok(lease) if lease.run_id == *run_id => Ok(Some(lease)),
            Ok(lease) => Err(self.wrong(&url, format!("it is of run {}", lease.run_id))),
            Err(ServerError::NoRoute { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The steps of a run, in order.
    pub async fn steps(&self, run_id: &str) -> Result<Vec<Step>, ServerError> {
        let url = self.run_route(run_id, &["steps"]);
        let steps: Vec<Step> = self.get(&url).await?;
        match steps.iter().find(|step| step.run_id != run_id) {
            None => Ok(steps),
            Some(other) => Err(self.wrong(&url, format!("it is of run {}", other.run_id))),
        }
    }

    /// The checkpoints of a run, in order.
    pub async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>, ServerError> {
        let url = self.run_route(run_id, &["checkpoints"]);
        let checkpoints: Vec<Checkpoint> = self.get(&url).await?;
        match checkpoints.iter().find(|checkpoint| checkpoint.run_id != run_id) {
            None => Ok(checkpoints),
            Some(other) => Err(self.wrong(&url, format!("it is of run {}", other.run_id))),
        }
    }

    /// Where all sampled tokens there are went, as a run sees it.
    pub async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>, ServerError> {
        self.get(&self.run_route(run_id, &["ledger"])).await
    }

    /// Every generation there is of which a run has not said what became of it, oldest first.
    pub async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>, ServerError> {
        self.get(&self.run_route(run_id, &["unaccounted"])).await
    }

    /// Who called a model in the last seconds, or is about to, besides the rollouts of a run. `None` of servers of earlier
    /// releases, which do not say.
    pub async fn other_callers(
        &self,
        run_id: &str,
        model: &str,
        within: Duration,
    ) -> Result<Option<OtherCallers>, ServerError> {
        let mut url = self.run_route(run_id, &["other-callers"]);
        let seconds = within.as_secs().to_string();
        url.query_pairs_mut().extend_pairs([("model", model), ("seconds", &seconds)]);
        match self.get(&url).await {
            Ok(callers) => Ok(Some(callers)),
            Err(ServerError::NoRoute { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn run_route(&self, run_id: &str, more: &[&str]) -> reqwest::Url {
        self.route(&[&["v1", "fulgurite", "runs", run_id], more].concat())
    }
}
