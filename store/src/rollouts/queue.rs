//! Rollouts that are enqueued, started and handed out.

use std::time::Duration;

use fulgurite_types::{AttemptedRollout, NewRollout, Rollout, RolloutStatus, SessionIds, new_attempt_id};
use tokio::time::{Instant, sleep_until};

use crate::Result;
use crate::database::sql::to_integer;
use crate::database::telemetry::rollouts_were_claimed;
use crate::database::writer::Write;
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::leases;
use crate::rollouts::attempts::rows::{insert_attempt, latest_attempt};
use crate::rollouts::changes::{insert_rollout, set_rollout_status, validate};
use crate::rollouts::rows::{existing_rollout, rollout_from_row};
use crate::rollouts::workers::rows::{worker_found_nothing, worker_took};
use fulgurite_types::time::now;

impl Rollouts {
    /// Creates rollouts and puts them at the end of the queue, in order. One whose id is supplied and known already
    /// is given back as it is stored.
    pub async fn enqueue(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>> {
        if rollouts.is_empty() {
            return Ok(Vec::new());
        }
        rollouts.iter().try_for_each(validate)?;
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut stored = Vec::with_capacity(rollouts.len());
                    for rollout in rollouts {
                        stored.push(insert_rollout(write, rollout, RolloutStatus::Queuing).await?.0);
                    }
                    Ok(stored)
                })
            })
            .await
    }

    /// Creates a rollout together with its first attempt; it is never queued. One with an id that exists already is
    /// returned as it is stored, with its latest attempt.
    pub async fn start(&self, rollout: NewRollout, worker_id: Option<&str>) -> Result<AttemptedRollout> {
        validate(&rollout)?;
        let worker_id = worker_id.map(str::to_owned);
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let (rollout, is_new) = insert_rollout(write, rollout, RolloutStatus::Preparing).await?;
                    if !is_new && let Some(attempt) = latest_attempt(write.connection(), &rollout.rollout_id).await? {
                        return Ok(AttemptedRollout { rollout, attempt });
                    }
                    hand_out(write, rollout, worker_id.as_deref(), None).await
                })
            })
            .await
    }

    /// Begins a session of several calls: its rollout and its attempt, which must not be there yet.
    pub async fn start_session(&self, ids: &SessionIds) -> Result<()> {
        let SessionIds { rollout_id, attempt_id } = ids.clone();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let session = NewRollout { rollout_id: Some(rollout_id.clone()), ..NewRollout::session() };
                    let (mut rollout, _) = insert_rollout(write, session, RolloutStatus::Preparing).await?;
                    let attempt = insert_attempt(write.connection(), &rollout_id, &attempt_id, None, None).await?;
                    write.attempt_started(&mut rollout, &attempt);
                    Ok(())
                })
            })
            .await
    }

    /// Begins another attempt at a rollout, whatever its status and its limit of attempts.
    pub async fn start_attempt(&self, rollout_id: &str, worker_id: Option<&str>) -> Result<AttemptedRollout> {
        let (rollout_id, worker_id) = (rollout_id.to_owned(), worker_id.map(str::to_owned));
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let rollout = existing_rollout(write.connection(), &rollout_id).await?;
                    hand_out(write, rollout, worker_id.as_deref(), None).await
                })
            })
            .await
    }

    /// Takes up to `limit` rollouts off the queue, oldest first, each with a new attempt. While the queue is empty it
    /// waits up to `wait`. Every rollout is handed out once.
    pub async fn dequeue(
        &self,
        limit: usize,
        worker_id: Option<&str>,
        wait: Duration,
    ) -> Result<Vec<AttemptedRollout>> {
        self.dequeue_graded(limit, worker_id, None, wait).await
    }

    /// As [`Rollouts::dequeue`], for a worker that has the attempts graded: from then on only their grader and the
    /// holder of the admin key can give them rewards.
    pub async fn dequeue_graded(
        &self,
        limit: usize,
        worker_id: Option<&str>,
        grader: Option<&str>,
        wait: Duration,
    ) -> Result<Vec<AttemptedRollout>> {
        self.dequeue_leased(limit, worker_id, grader, wait, None).await
    }

    /// As [`Rollouts::dequeue_graded`], for a worker that sends a heartbeat or a call of each attempt within `lease`.
    /// Without one the reply is taken to be lost, and the rollout is queued again without having lost an attempt.
    pub async fn dequeue_leased(
        &self,
        limit: usize,
        worker_id: Option<&str>,
        grader: Option<&str>,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Result<Vec<AttemptedRollout>> {
        leases::validate(lease)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = to_integer("limit", limit)?;
        let deadline = Instant::now() + wait;
        loop {
            // Listening begins before looking, so that nothing that is queued in between is missed.
            let queued = self.database.signals().queued.notified();
            tokio::pin!(queued);
            queued.as_mut().enable();
            let (worker_id, grader) = (worker_id.map(str::to_owned), grader.map(str::to_owned));
            let claimed = self
                .database
                .writer()?
                .write_if_awaited(move |write| {
                    Box::pin(async move { take(write, limit, worker_id.as_deref(), grader.as_deref(), lease).await })
                })
                .await?;
            rollouts_were_claimed(&claimed);
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            tokio::select! {
                () = queued => {}
                () = sleep_until(deadline) => return Ok(claimed),
                () = self.database.signals().closed() => return Ok(claimed),
            }
        }
    }
}

async fn hand_out(
    write: &mut Write,
    mut rollout: Rollout,
    worker_id: Option<&str>,
    grader: Option<&str>,
) -> Result<AttemptedRollout> {
    set_rollout_status(write, &mut rollout, RolloutStatus::Preparing).await?;
    let attempt = insert_attempt(write.connection(), &rollout.rollout_id, &new_attempt_id(), worker_id, grader).await?;
    if let Some(worker_id) = worker_id {
        worker_took(write.connection(), worker_id, &attempt).await?;
    }
    write.attempt_started(&mut rollout, &attempt);
    Ok(AttemptedRollout { rollout, attempt })
}

async fn take(
    write: &mut Write,
    limit: i64,
    worker_id: Option<&str>,
    grader: Option<&str>,
    lease: Option<Duration>,
) -> Result<Vec<AttemptedRollout>> {
    let rows = sqlx::query("SELECT * FROM rollouts WHERE queue_position IS NOT NULL ORDER BY queue_position LIMIT $1")
        .bind(limit)
        .fetch_all(write.connection())
        .await?;
    if let Some(worker_id) = worker_id {
        crate::rollouts::workers::rows::worker_polled(write.connection(), worker_id).await?;
        if rows.is_empty() {
            worker_found_nothing(write.connection(), worker_id).await?;
        }
    }
    let mut claimed = Vec::with_capacity(rows.len());
    for row in &rows {
        let handed_out = hand_out(write, rollout_from_row(row)?, worker_id, grader).await?;
        if let Some(lease) = lease {
            leases::begin(write.connection(), &handed_out.attempt, now() + lease.as_secs_f64()).await?;
        }
        claimed.push(handed_out);
    }
    Ok(claimed)
}
