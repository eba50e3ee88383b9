//! The watchdog: ends attempts that time out or show no activity.

use std::time::Duration;

use fulgurite_types::{Attempt, AttemptStatus, AttemptUpdate};
use sqlx::AnyConnection;
use tokio::task::JoinHandle;

use crate::lifecycle::overdue;
use crate::rollouts::attempts::Attempts;
use crate::rollouts::attempts::leases;
use crate::rollouts::attempts::propagation::apply;
use crate::rollouts::attempts::rows::latest_attempt;
use crate::rollouts::rows::rollout_from_row;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

impl Attempts {
    /// Ends every attempt that has timed out or shown no activity for too long, by its rollout's config, and reclaims those
    /// whose lease has expired. Returns the attempts that it has ended.
    pub async fn scan_watchdog(&self) -> Result<Vec<Attempt>> {
        self.scan_watchdog_at(now()).await
    }

    pub(crate) async fn scan_watchdog_at(&self, time: f64) -> Result<Vec<Attempt>> {
        // Looking needs no transaction; only when something is overdue is one made, which looks again.
        let mut reader = self.database.reader().await?;
        if leases::expired(&mut reader, time).await?.is_empty() && overdue_attempts(&mut reader, time).await?.is_empty()
        {
            return Ok(Vec::new());
        }
        drop(reader);
        self.database
            .write(move |write| {
                Box::pin(async move {
                    for attempt in leases::expired(write.connection(), time).await? {
                        leases::reclaim(write, &attempt).await?;
                    }
                    let mut ended = Vec::new();
                    for (attempt, status) in overdue_attempts(write.connection(), time).await? {
                        ended.push(apply(write, attempt, AttemptUpdate::status(status)).await?);
                    }
                    Ok(ended)
                })
            })
            .await
    }

    /// Scans now and every `interval` from now on, until the store is closed or the task is aborted.
    #[expect(clippy::disallowed_methods, reason = "who asks for it holds it")]
    pub fn spawn_watchdog(&self, interval: Duration) -> JoinHandle<()> {
        let store = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                match store.scan_watchdog().await {
                    Ok(ended) => {
                        for attempt in ended {
                            let Attempt { rollout_id, attempt_id, status, .. } = attempt;
                            tracing::info!(rollout_id, attempt_id, %status, "the watchdog ended an attempt");
                        }
                    }
                    Err(StoreError::Closed) => return,
                    Err(error) => tracing::error!(%error, "the watchdog could not scan"),
                }
            }
        })
    }
}

/// The latest attempts of rollouts under way that are overdue, and what they become.
async fn overdue_attempts(connection: &mut AnyConnection, time: f64) -> Result<Vec<(Attempt, AttemptStatus)>> {
    // The first condition is that of the index.
    let rollouts = sqlx::query(
        "SELECT * FROM rollouts WHERE end_time IS NULL AND status IN ('preparing', 'running') ORDER BY position",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut found = Vec::new();
    for row in &rollouts {
        let rollout = rollout_from_row(row)?;
        if rollout.config.timeout_seconds.is_none() && rollout.config.unresponsive_seconds.is_none() {
            continue;
        }
        let Some(attempt) = latest_attempt(connection, &rollout.rollout_id).await? else { continue };
        if attempt.status.is_ended() {
            continue;
        }
        if let Some(status) = overdue(time, attempt.start_time, attempt.last_heartbeat_time, &rollout.config) {
            found.push((attempt, status));
        }
    }
    Ok(found)
}
