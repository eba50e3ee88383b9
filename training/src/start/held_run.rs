//! One process trains a run, wherever copies of the run's directory are: it holds a lease of the run in the store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use fulgurite_lab::time;
use fulgurite_trainer::Record;
use fulgurite_types::{RunClaim, RunLease};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::owner::{StoreAccess, has_ended, this_process};

/// How long a run is a process's without a word from it.
const LEASE_SECONDS: f64 = 60.0;
/// Time between its words.
const RENEWAL: Duration = Duration::from_secs(15);
/// How long an ending process waits for its run to be given back: without that the lease runs out.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// A run that this process has, and renews until it is given back.
pub(crate) struct HeldRun {
    record: Arc<dyn Record>,
    claim: RunClaim,
    lost: watch::Receiver<Option<RunLease>>,
    renewal: JoinSet<()>,
}

/// Tells when another process has taken a run over.
#[derive(Clone)]
pub(crate) struct RunLoss {
    lost: watch::Receiver<Option<RunLease>>,
}

impl HeldRun {
    /// Gets a run for this process, which has locked the run's directory. Takes it over from a process that is known to have
    /// ended.
    ///
    /// # Errors
    /// Names the process that has the run.
    pub(crate) async fn claim(
        record: &Arc<dyn Record>,
        run_id: &str,
        directory: &Path,
        store: StoreAccess,
    ) -> Result<Self> {
        Self::claim_and_renew(record, run_id, directory, store, RENEWAL)
            .await?
            .map_err(|lease| anyhow!(refusal(&lease)))
    }

    /// The same of a run that is to begin: `None` if another process has the id.
    pub(crate) async fn claim_free(
        record: &Arc<dyn Record>,
        run_id: &str,
        directory: &Path,
        store: StoreAccess,
    ) -> Result<Option<Self>> {
        Ok(Self::claim_and_renew(record, run_id, directory, store, RENEWAL).await?.ok())
    }

    async fn claim_and_renew(
        record: &Arc<dyn Record>,
        run_id: &str,
        directory: &Path,
        store: StoreAccess,
        interval: Duration,
    ) -> Result<std::result::Result<Self, RunLease>> {
        let owner = this_process(directory, store);
        let mut claim = RunClaim { run_id: run_id.to_owned(), owner, seconds: LEASE_SECONDS, ended_owner: None };
        let lease = match record.claim_run(claim.clone()).await? {
            Some(other) if has_ended(&other.owner, &claim.owner) => {
                claim.ended_owner = Some(other.owner.owner_id);
                record.claim_run(claim.clone()).await?
            }
            lease => lease,
        };
        claim.ended_owner = None;
        match &lease {
            Some(other) if other.owner.owner_id != claim.owner.owner_id => return Ok(Err(other.clone())),
            Some(_) => {}
            None => tracing::warn!(
                run_id,
                "the server is of an earlier release, which does not know which process trains a run: see to it yourself that \
                 no copy of the run's directory is trained beside it"
            ),
        }
        let (sender, lost) = watch::channel(None);
        let mut renewal = JoinSet::new();
        if lease.is_some() {
            renewal.spawn(renew(Arc::clone(record), claim.clone(), interval, sender));
        }
        Ok(Ok(Self { record: Arc::clone(record), claim, lost, renewal }))
    }

    /// Tells when the run is lost.
    pub(crate) fn loss(&self) -> RunLoss {
        RunLoss { lost: self.lost.clone() }
    }

    /// Works on the run, and gives it back.
    pub(crate) async fn during<T>(self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let outcome = work.await;
        self.give_back().await;
        outcome
    }

    /// Gives the run back.
    pub(crate) async fn give_back(mut self) {
        if self.renewal.is_empty() || self.lost.borrow().is_some() {
            return;
        }
        self.renewal.shutdown().await;
        let claim = RunClaim { seconds: 0.0, ..self.claim };
        match timeout(GIVING_BACK, self.record.claim_run(claim)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the run is not given back; its lease runs out"),
            Err(_) => tracing::debug!("the run is not given back in time; its lease runs out"),
        }
    }
}

/// Whether another process has a run of whose directory nobody has the lock.
pub(crate) async fn is_trained_elsewhere(record: &dyn Record, run_id: &str, directory: &Path) -> Result<bool> {
    let owner = this_process(directory, StoreAccess::Shared);
    // For no time: the answer says who has it.
    let claim = RunClaim { run_id: run_id.to_owned(), owner: owner.clone(), seconds: 0.0, ended_owner: None };
    let lease = record.claim_run(claim).await?;
    Ok(lease.is_some_and(|lease| lease.owner.owner_id != owner.owner_id && !has_ended(&lease.owner, &owner)))
}

impl RunLoss {
    /// Completes when another process has taken the run over, with what to say of it.
    pub(crate) async fn happens(&mut self) -> anyhow::Error {
        match self.lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(lease)) => anyhow!(
                "run {} has been taken over by {}, since nothing was heard of this process for {LEASE_SECONDS} seconds: it \
                 ends here and goes on there",
                lease.run_id,
                holder(lease)
            ),
            // Nobody renews, so that nobody hears of it.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

/// Renews a lease until another process has the run.
async fn renew(record: Arc<dyn Record>, claim: RunClaim, interval: Duration, lost: watch::Sender<Option<RunLease>>) {
    loop {
        sleep(interval).await;
        match record.claim_run(claim.clone()).await {
            Ok(Some(other)) if other.owner.owner_id != claim.owner.owner_id => {
                lost.send_replace(Some(other));
                return;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, run_id = claim.run_id, "the lease of the run is not renewed"),
        }
    }
}

fn holder(lease: &RunLease) -> String {
    let RunLease { owner, start_time, .. } = lease;
    let since = time::text(*start_time);
    format!("process {} on {} (in {}, since {since} UTC)", owner.pid, owner.host, owner.directory)
}

/// Why another process gets no run, and what to do.
fn refusal(lease: &RunLease) -> String {
    let RunLease { run_id, owner, end_time, seconds_left, .. } = lease;
    format!(
        "run {run_id} is trained by {}: end that process first (`kill {}` on {}), then type the same again. If it has ended \
         without a word, the run is free in {:.0} seconds, at {} UTC",
        holder(lease),
        owner.pid,
        owner.host,
        seconds_left.max(0.0).ceil(),
        time::text(*end_time)
    )
}

#[cfg(test)]
mod tests {
    use fulgurite_store::{Store, StoreOptions};
    use fulgurite_types::RunOwner;

    use super::*;

    async fn store(directory: &Path) -> Arc<dyn Record> {
        let url = format!("sqlite://{}", directory.join("t.db").display());
        Arc::new(Store::open(&url, StoreOptions::default()).await.unwrap())
    }

    #[tokio::test]
    async fn a_run_is_refused_to_a_copy_beside_it_and_free_after_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let record = store(directory.path()).await;
        let claim = |at: &str| {
            let (record, at) = (Arc::clone(&record), directory.path().join(at));
            std::fs::create_dir_all(&at).unwrap();
            async move { HeldRun::claim(&record, "run", &at, StoreAccess::Shared).await }
        };
        let held = claim("run").await.unwrap();
        held.during(async {
            let refused = claim("copy").await.err().unwrap().to_string();
            let expected = format!("run run is trained by process {} on ", std::process::id());
            assert!(refused.starts_with(&expected) && refused.contains("/run, since "), "{refused}");
            Ok(())
        })
        .await
        .unwrap();
        claim("copy").await.unwrap();
    }

    #[tokio::test]
    async fn a_process_hears_that_another_has_taken_its_run_over() {
        let directory = tempfile::tempdir().unwrap();
        let record = store(directory.path()).await;
        let (store, interval) = (StoreAccess::Shared, Duration::from_millis(1));
        let held = HeldRun::claim_and_renew(&record, "run", directory.path(), store, interval).await.unwrap();
        let held = held.unwrap_or_else(|lease| panic!("{lease:?}"));
        let other = RunOwner { owner_id: "other".into(), host: "there".into(), pid: 7, ..RunOwner::default() };
        let ended_owner = Some(held.claim.owner.owner_id.clone());
        let claim = RunClaim { run_id: "run".into(), owner: other, seconds: 60.0, ended_owner };
        record.claim_run(claim).await.unwrap();
        let mut loss = held.loss();
        let lost = held.during(async { Ok(loss.happens().await.to_string()) }).await.unwrap();
        assert!(lost.starts_with("run run has been taken over by process 7 on there"), "{lost}");
    }
}
