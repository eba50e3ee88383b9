//! Rollouts with what an orchestrator keeps of them: how to start their agent, its job, the attempt that counts. They are
//! the same rollouts as everywhere else: what is enqueued one way can be run the other.

use std::collections::HashMap;

use fulgurite_types::{
    Attempt, AttemptRef, AttemptStatus, AttemptUpdate, GatewayRollout, GatewayState, GatewayUpdate, NewGatewayRollout,
    NewRollout, Page, Rollout, RolloutConfig, RolloutFilter, RolloutStatus,
};
use serde_json::Value;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{Sql, column, count, optional_id, optional_json, optional_plain, to_optional_json};
use crate::database::writer::Write;
use crate::open_database::Database;
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::opening::open_attempt;
use crate::rollouts::attempts::propagation::apply;
use crate::rollouts::attempts::rows::{existing_attempt, latest_attempt};
use crate::rollouts::changes::{insert_rollout, set_rollout_status};
use crate::rollouts::deletion::delete_rollouts;
use crate::rollouts::rows::{existing_rollout, find_rollout};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// A row of `gateway_rollouts`.
#[derive(Default)]
struct Record {
    local: Option<Value>,
    k8s: Option<Value>,
    k8s_job_name: Option<String>,
    last_attempt_id: Option<String>,
    error_message: Option<String>,
    /// Changes through the gateway.
    changes: u32,
    updated_at: f64,
}

/// Rollouts as an orchestrator's gateway sees them.
#[derive(Clone, Debug)]
pub struct GatewayRollouts {
    database: Database,
}

impl GatewayRollouts {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// Creates rollouts and puts them at the end of the queue, in order. One whose id is supplied and known already is
    /// given back as it is stored.
    pub async fn create(&self, rollouts: Vec<NewGatewayRollout>) -> Result<Vec<GatewayRollout>> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut created = Vec::with_capacity(rollouts.len());
                    for rollout in rollouts {
                        created.push(create(write, rollout).await?);
                    }
                    Ok(created)
                })
            })
            .await
    }

    /// The first `limit` rollouts in one of these states, in the order in which they were made.
    pub async fn in_states(&self, states: &[GatewayState], limit: u64) -> Result<Vec<GatewayRollout>> {
        let filter = RolloutFilter {
            status_in: Some(states.iter().flat_map(|state| state.statuses()).collect()),
            page: Page { limit: Some(limit), ..Page::default() },
            ..RolloutFilter::default()
        };
        let found = Rollouts::new(&self.database).query(&filter).await?.items;
        let mut connection = self.database.reader().await?;
        let mut records =
            records(&mut connection, found.iter().map(|(rollout, _)| rollout.rollout_id.as_str())).await?;
        let join = |(rollout, attempt): (Rollout, Option<Attempt>)| {
            let record = records.remove(&rollout.rollout_id);
            record.unwrap_or_default().joined_to(rollout, attempt)
        };
        Ok(found.into_iter().map(join).collect())
    }

    /// A rollout, if there is one.
    pub async fn get(&self, rollout_id: &str) -> Result<Option<GatewayRollout>> {
        let mut connection = self.database.reader().await?;
        match find_rollout(&mut connection, rollout_id).await? {
            Some(rollout) => Ok(Some(joined(&mut connection, rollout).await?)),
            None => Ok(None),
        }
    }

    /// Updates a rollout if its state allows the transition. The attempt that counts follows; the rollout ends in the given
    /// state even if its config allows another attempt.
    pub async fn update(&self, rollout_id: &str, change: GatewayUpdate) -> Result<GatewayRollout> {
        let rollout_id = rollout_id.to_owned();
        self.database.write(move |write| Box::pin(async move { update(write, &rollout_id, change).await })).await
    }

    /// Deletes a rollout with its attempts, spans and generations; whether there was one. Refused once a training run
    /// has used one of its generations.
    pub async fn delete(&self, rollout_id: &str) -> Result<bool> {
        let rollout_id = rollout_id.to_owned();
        self.database.write(move |write| Box::pin(async move { delete(write, &rollout_id).await })).await
    }
}

impl Record {
    fn from_row(row: &AnyRow) -> Result<Self> {
        let version: u32 = count(row, "version")?;
        Ok(Self {
            local: optional_json(row, "local_config")?,
            k8s: optional_json(row, "k8s_config")?,
            k8s_job_name: column(row, "k8s_job_name")?,
            last_attempt_id: column(row, "last_attempt_id")?,
            error_message: column(row, "error_message")?,
            changes: version.saturating_sub(1),
            updated_at: column(row, "updated_at")?,
        })
    }

    fn joined_to(self, rollout: Rollout, latest: Option<Attempt>) -> GatewayRollout {
        GatewayRollout {
            local: self.local,
            k8s: self.k8s,
            k8s_job_name: self.k8s_job_name,
            last_attempt_id: self.last_attempt_id.or(latest.map(|attempt| attempt.attempt_id)),
            error_message: self.error_message,
            version: self.changes.saturating_add(1),
            updated_at: self.updated_at.max(rollout.end_time.unwrap_or(rollout.start_time)),
            rollout,
        }
    }

    async fn store(&self, connection: &mut AnyConnection, rollout_id: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO gateway_rollouts (rollout_id, local_config, k8s_config, k8s_job_name, last_attempt_id,
                 error_message, version, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (rollout_id) DO UPDATE SET k8s_job_name = excluded.k8s_job_name,
                 last_attempt_id = excluded.last_attempt_id, error_message = excluded.error_message,
                 version = excluded.version, updated_at = excluded.updated_at",
        )
        .bind(rollout_id)
        .bind(to_optional_json("config.local", self.local.as_ref())?)
        .bind(to_optional_json("config.k8s", self.k8s.as_ref())?)
        .bind(optional_id("status.k8s_job_name", self.k8s_job_name.as_deref())?)
        .bind(optional_id("status.last_attempt_id", self.last_attempt_id.as_deref())?)
        .bind(optional_plain("status.error_message", self.error_message.as_deref())?)
        .bind(i64::from(self.changes) + 1)
        .bind(self.updated_at)
        .execute(connection)
        .await?;
        Ok(())
    }
}

async fn records<'a>(
    connection: &mut AnyConnection,
    rollout_ids: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, Record>> {
    let mut sql = Sql::new("SELECT * FROM gateway_rollouts WHERE rollout_id IN ");
    sql.list(rollout_ids);
    let rows = sql.all(connection).await?;
    rows.iter().map(|row| Ok((column(row, "rollout_id")?, Record::from_row(row)?))).collect()
}

async fn record(connection: &mut AnyConnection, rollout_id: &str) -> Result<Record> {
    let found = records(connection, std::iter::once(rollout_id)).await?.remove(rollout_id);
    Ok(found.unwrap_or_default())
}

async fn joined(connection: &mut AnyConnection, rollout: Rollout) -> Result<GatewayRollout> {
    let latest = latest_attempt(connection, &rollout.rollout_id).await?;
    Ok(record(connection, &rollout.rollout_id).await?.joined_to(rollout, latest))
}

async fn create(write: &mut Write, new: NewGatewayRollout) -> Result<GatewayRollout> {
    let rollout = NewRollout {
        rollout_id: new.rollout_id,
        input: new.input,
        mode: Some(new.mode),
        resources_id: None,
        config: Some(RolloutConfig { timeout_seconds: Some(new.timeout_seconds), ..RolloutConfig::default() }),
        metadata: Some(new.metadata),
    };
    let (rollout, is_new) = insert_rollout(write, rollout, RolloutStatus::Queuing).await?;
    if is_new {
        let record = Record { local: new.local, k8s: new.k8s, updated_at: rollout.start_time, ..Record::default() };
        record.store(write.connection(), &rollout.rollout_id).await?;
    }
    joined(write.connection(), rollout).await
}

async fn update(write: &mut Write, rollout_id: &str, change: GatewayUpdate) -> Result<GatewayRollout> {
    let rollout = existing_rollout(write.connection(), rollout_id).await?;
    let mut record = record(write.connection(), rollout_id).await?;
    if let Some(attempt_id) = change.last_attempt_id {
        open_attempt(write, rollout_id, &attempt_id).await?;
        record.last_attempt_id = Some(attempt_id);
    }
    record.k8s_job_name = change.k8s_job_name.or(record.k8s_job_name);
    record.error_message = change.error_message.or(record.error_message);
    record.changes += 1;
    record.updated_at = now();
    record.store(write.connection(), rollout_id).await?;
    if let Some(state) = change.state {
        go_on(write, rollout, record.last_attempt_id.as_deref(), state).await?;
    }
    let rollout = existing_rollout(write.connection(), rollout_id).await?;
    joined(write.connection(), rollout).await
}

/// Brings a rollout, and the attempt that counts, into a state.
async fn go_on(write: &mut Write, rollout: Rollout, attempt_id: Option<&str>, state: GatewayState) -> Result<()> {
    let from = GatewayState::of(rollout.status);
    if !from.may_become(state) {
        return Err(StoreError::IllegalTransition { rollout_id: rollout.rollout_id, from, to: state });
    }
    if from == state {
        return Ok(());
    }
    let attempt_status = match state {
        GatewayState::Queuing | GatewayState::Running => AttemptStatus::Running,
        GatewayState::Succeeded => AttemptStatus::Succeeded,
        GatewayState::Failed => AttemptStatus::Failed,
    };
    let attempt = match attempt_id {
        Some(id) => {
            Some(existing_attempt(write.connection(), &rollout.rollout_id, &AttemptRef::Id(id.to_owned())).await?)
        }
        None => latest_attempt(write.connection(), &rollout.rollout_id).await?,
    };
    if let Some(attempt) = attempt.filter(|attempt| !attempt.status.is_ended()) {
        apply(write, attempt, AttemptUpdate::status(attempt_status)).await?;
    }
    // The attempt may have sent the rollout elsewhere, or there may be none.
    let mut rollout = existing_rollout(write.connection(), &rollout.rollout_id).await?;
    set_rollout_status(write, &mut rollout, state.status()).await
}

async fn delete(write: &mut Write, rollout_id: &str) -> Result<bool> {
    let used = sqlx::query(
        "SELECT 1 FROM generation_uses JOIN generations USING (generation_id) WHERE rollout_id = $1 LIMIT 1",
    )
    .bind(rollout_id)
    .fetch_optional(write.connection())
    .await?;
    if used.is_some() {
        return Err(StoreError::InUse { kind: "rollout", id: rollout_id.to_owned() });
    }
    Ok(delete_rollouts(write, &[rollout_id]).await?.rollouts > 0)
}
