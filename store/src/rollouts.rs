//! Rollouts: creating, handing out, finding, changing, and waiting for their end.

use std::collections::HashMap;
use std::time::Duration;

use fulgurite_types::{
    Attempt, AttemptedRollout, NewRollout, Object, Paginated, Rollout, RolloutFilter, RolloutStatus, RolloutUpdate,
    SessionIds, new_attempt_id, new_rollout_id,
};
use serde_json::Value;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::attempts::{attempt_beside_rollout, attempt_from_row, insert_attempt, latest_attempt, rollout_and_attempt};
use crate::leases;
use crate::sql::{
    Conditions, OptionalReal, SortField, Sql, column, json, optional_json, optional_plain, optional_word, plain,
    to_integer, to_json, to_optional_json, word,
};
use crate::telemetry::rollouts_were_taken;
use crate::workers::{worker_found_nothing, worker_took};
use crate::writer::{Write, now};
use crate::{Result, Store, StoreError};

/// Ids in one `IN (..)`; the database takes some more.
const IDS_PER_QUERY: usize = 10_000;

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("rollout_id"),
    SortField::text("input"),
    SortField::time("start_time"),
    SortField::time("end_time"),
    SortField::text("mode"),
    SortField::text("resources_id"),
    SortField::text("status"),
    SortField::text("config"),
    SortField::text("metadata"),
];

impl Store {
    /// Creates rollouts and puts them at the end of the queue, in order. One whose id is supplied and known already
    /// is given back as it is stored.
    pub async fn enqueue_rollouts(&self, rollouts: Vec<NewRollout>) -> Result<Vec<Rollout>> {
        if rollouts.is_empty() {
            return Ok(Vec::new());
        }
        rollouts.iter().try_for_each(validate)?;
        self.write(move |write| {
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

    /// Creates a rollout together with its first attempt; it never stands in the queue. One whose id is supplied and
    /// known already is given back as it is stored, with its latest attempt.
    pub async fn start_rollout(&self, rollout: NewRollout, worker_id: Option<&str>) -> Result<AttemptedRollout> {
        validate(&rollout)?;
        let worker_id = worker_id.map(str::to_owned);
        self.write(move |write| {
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
        self.write(move |write| {
            Box::pin(async move {
                let session = NewRollout { rollout_id: Some(rollout_id.clone()), ..NewRollout::session() };
                let (mut rollout, _) = insert_rollout(write, session, RolloutStatus::Preparing).await?;
                let attempt = insert_attempt(write.connection(), &rollout_id, &attempt_id, None, None).await?;
                write.attempt_began(&mut rollout, &attempt);
                Ok(())
            })
        })
        .await
    }

    /// Begins another attempt at a rollout, whatever its status and its limit of attempts.
    pub async fn start_attempt(&self, rollout_id: &str, worker_id: Option<&str>) -> Result<AttemptedRollout> {
        let (rollout_id, worker_id) = (rollout_id.to_owned(), worker_id.map(str::to_owned));
        self.write(move |write| {
            Box::pin(async move {
                let rollout = existing_rollout(write.connection(), &rollout_id).await?;
                hand_out(write, rollout, worker_id.as_deref(), None).await
            })
        })
        .await
    }

    /// Takes up to `limit` rollouts off the queue, oldest first, each with a new attempt. While the queue is empty it
    /// waits up to `wait`. Every rollout is handed out once.
    pub async fn dequeue_rollouts(
        &self,
        limit: usize,
        worker_id: Option<&str>,
        wait: Duration,
    ) -> Result<Vec<AttemptedRollout>> {
        self.dequeue_graded_rollouts(limit, worker_id, None, wait).await
    }

    /// As [`Store::dequeue_rollouts`], for a worker that has the attempts graded: from then on their rewards are those
    /// that their grader gives, or whoever holds the admin key.
    pub async fn dequeue_graded_rollouts(
        &self,
        limit: usize,
        worker_id: Option<&str>,
        grader: Option<&str>,
        wait: Duration,
    ) -> Result<Vec<AttemptedRollout>> {
        self.dequeue_leased(limit, worker_id, grader, wait, None).await
    }

    /// As [`Store::dequeue_graded_rollouts`], for whoever gives a sign of life of each attempt within `lease`: a heartbeat
    /// or a call. Where none comes, the reply was lost, and the rollout is queued again without having lost an attempt.
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
            let queued = self.signals().queued.notified();
            tokio::pin!(queued);
            queued.as_mut().enable();
            let (worker_id, grader) = (worker_id.map(str::to_owned), grader.map(str::to_owned));
            let taken = self
                .writer()?
                .write_if_awaited(move |write| {
                    Box::pin(async move { take(write, limit, worker_id.as_deref(), grader.as_deref(), lease).await })
                })
                .await?;
            rollouts_were_taken(&taken);
            if !taken.is_empty() {
                return Ok(taken);
            }
            tokio::select! {
                () = queued => {}
                () = sleep_until(deadline) => return Ok(taken),
                () = self.signals().closed() => return Ok(taken),
            }
        }
    }

    /// A rollout and its latest attempt.
    pub async fn get_rollout(&self, rollout_id: &str) -> Result<Option<(Rollout, Option<Attempt>)>> {
        let row = sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            " FROM rollouts r LEFT JOIN attempts a ON a.rollout_id = r.rollout_id
             WHERE r.rollout_id = $1 ORDER BY a.sequence_id DESC LIMIT 1",
        ))
        .bind(rollout_id)
        .fetch_optional(&mut *self.reader().await?)
        .await?;
        row.as_ref().map(|row| Ok((rollout_from_row(row)?, attempt_beside_rollout(row)?))).transpose()
    }

    /// Rollouts that meet a filter, each with its latest attempt.
    pub async fn query_rollouts(&self, filter: &RolloutFilter) -> Result<Paginated<(Rollout, Option<Attempt>)>> {
        let mut connection = self.reader().await?;
        let mut total = Sql::new("SELECT COUNT(*) FROM rollouts");
        push_conditions(&mut total, filter)?;
        let mut page = Sql::new("SELECT * FROM rollouts");
        push_conditions(&mut page, filter)?;
        page.page(&filter.page, SORT_FIELDS)?;
        let total = total.total(&mut connection).await?;
        let rollouts: Vec<Rollout> =
            page.all(&mut connection).await?.iter().map(rollout_from_row).collect::<Result<_>>()?;
        let mut attempts = latest_attempts(&mut connection, &rollouts).await?;
        let items = rollouts
            .into_iter()
            .map(|rollout| {
                let attempt = attempts.remove(&rollout.rollout_id);
                (rollout, attempt)
            })
            .collect();
        Ok(Paginated {
            items,
            limit: filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: filter.page.offset,
            total,
        })
    }

    /// Changes a rollout as told, without any check of the transition.
    pub async fn update_rollout(&self, rollout_id: &str, update: RolloutUpdate) -> Result<Rollout> {
        if let Some(config) = &update.config {
            validate_config(config.max_attempts)?;
        }
        let rollout_id = rollout_id.to_owned();
        self.write(move |write| {
            Box::pin(async move {
                let mut rollout = existing_rollout(write.connection(), &rollout_id).await?;
                if let Some(status) = update.status {
                    set_rollout_status(write, &mut rollout, status).await?;
                }
                rollout.input = update.input.unwrap_or(rollout.input);
                rollout.mode = update.mode.unwrap_or(rollout.mode);
                rollout.resources_id = update.resources_id.unwrap_or(rollout.resources_id);
                rollout.config = update.config.unwrap_or(rollout.config);
                rollout.metadata = update.metadata.unwrap_or(rollout.metadata);
                store_fields(write, &rollout).await?;
                Ok(rollout)
            })
        })
        .await
    }

    /// Waits until all of these rollouts have finished, or until `timeout`. Gives those that have, in the given
    /// order; unknown ids are passed over. Without a timeout it waits as long as it takes.
    pub async fn wait_for_rollouts(&self, rollout_ids: &[String], timeout: Option<Duration>) -> Result<Vec<Rollout>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut finished = self.signals().finished.subscribe();
        let mut found = self.rollouts_by_id(rollout_ids).await?;
        let unfinished = found.iter().filter(|rollout| !rollout.status.is_finished());
        let mut unfinished: Vec<String> = unfinished.map(|rollout| rollout.rollout_id.clone()).collect();
        let mut changed = false;
        while !unfinished.is_empty() && self.changed_before(&mut finished, deadline).await {
            changed = true;
            // As long as one has not finished, the others need no look, however many they are.
            while let Some(next) = unfinished.last()
                && self.has_finished(next).await?
            {
                unfinished.pop();
            }
        }
        if changed {
            found = self.rollouts_by_id(rollout_ids).await?;
        }
        found.retain(|rollout| rollout.status.is_finished());
        Ok(found)
    }

    /// Whether a rollout has finished, or is not there any more.
    async fn has_finished(&self, rollout_id: &str) -> Result<bool> {
        let rollout = find_rollout(&mut *self.reader().await?, rollout_id).await?;
        Ok(rollout.is_none_or(|rollout| rollout.status.is_finished()))
    }

    async fn rollouts_by_id(&self, rollout_ids: &[String]) -> Result<Vec<Rollout>> {
        let mut connection = self.reader().await?;
        let mut found = HashMap::new();
        for ids in rollout_ids.chunks(IDS_PER_QUERY) {
            let mut sql = Sql::new("SELECT * FROM rollouts WHERE rollout_id IN ");
            sql.list(ids.iter().map(String::as_str));
            for row in sql.all(&mut connection).await? {
                let rollout = rollout_from_row(&row)?;
                found.insert(rollout.rollout_id.clone(), rollout);
            }
        }
        Ok(rollout_ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// Waits for a change, at most until `deadline`; whether there was one.
    async fn changed_before(&self, signal: &mut watch::Receiver<()>, deadline: Option<Instant>) -> bool {
        let time_is_up = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = signal.changed() => changed.is_ok(),
            () = time_is_up => false,
            () = self.signals().closed() => false,
        }
    }
}

fn validate(rollout: &NewRollout) -> Result<()> {
    if let Some(id) = &rollout.rollout_id
        && plain("rollout_id", id)?.is_empty()
    {
        return Err(StoreError::invalid("rollout_id", "must not be empty"));
    }
    rollout.config.as_ref().map_or(Ok(()), |config| validate_config(config.max_attempts))
}

fn validate_config(max_attempts: u32) -> Result<()> {
    if max_attempts == 0 {
        return Err(StoreError::invalid("config.max_attempts", "must be at least 1"));
    }
    Ok(())
}

pub(crate) fn push_conditions(sql: &mut Sql, filter: &RolloutFilter) -> Result<()> {
    sql.push(" WHERE 1 = 1");
    if let Some(run_id) = &filter.run_id {
        sql.push(" AND run_id = ").text(run_id);
    }
    if let Some(step) = filter.step {
        sql.push(" AND step = ").integer(step);
    }
    if let Some(mode) = filter.mode {
        sql.push(" AND mode = ").text(mode.as_str());
    }
    let mut conditions = Conditions::new(filter.filter_logic);
    if let Some(statuses) = &filter.status_in {
        conditions.one_of(sql, "status", statuses.iter().map(|status| status.as_str()));
        let finished = statuses.iter().filter(|status| status.is_finished()).count();
        // Follows from it, and says which of the indexes holds them all.
        match finished {
            0 => drop(sql.push(" AND end_time IS NULL")),
            all if all == statuses.len() => drop(sql.push(" AND end_time IS NOT NULL")),
            _ => {}
        }
    }
    if let Some(ids) = &filter.rollout_id_in {
        conditions.one_of(sql, "rollout_id", ids.iter().map(String::as_str));
    }
    if let Some(part) = &filter.rollout_id_contains {
        conditions.contains(sql, "rollout_id", part);
    }
    conditions.close(sql);
    Ok(())
}

pub(crate) fn rollout_from_row(row: &AnyRow) -> Result<Rollout> {
    Ok(Rollout {
        rollout_id: column(row, "rollout_id")?,
        input: json(row, "input")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        mode: optional_word(row, "mode")?,
        resources_id: column(row, "resources_id")?,
        status: word(row, "status")?,
        config: json(row, "config")?,
        metadata: optional_json(row, "metadata")?,
    })
}

pub(crate) async fn find_rollout(connection: &mut AnyConnection, rollout_id: &str) -> Result<Option<Rollout>> {
    let row =
        sqlx::query("SELECT * FROM rollouts WHERE rollout_id = $1").bind(rollout_id).fetch_optional(connection).await?;
    row.as_ref().map(rollout_from_row).transpose()
}

pub(crate) async fn existing_rollout(connection: &mut AnyConnection, rollout_id: &str) -> Result<Rollout> {
    find_rollout(connection, rollout_id).await?.ok_or_else(|| StoreError::not_found("rollout", rollout_id))
}

pub(crate) async fn latest_attempts(
    connection: &mut AnyConnection,
    rollouts: &[Rollout],
) -> Result<HashMap<String, Attempt>> {
    let mut attempts = HashMap::new();
    for rollouts in rollouts.chunks(IDS_PER_QUERY) {
        // In the order of their sequence ids, so that the latest is what remains.
        let mut sql = Sql::new("SELECT * FROM attempts WHERE rollout_id IN ");
        sql.list(rollouts.iter().map(|rollout| rollout.rollout_id.as_str())).push(" ORDER BY sequence_id");
        for row in sql.all(connection).await? {
            let attempt = attempt_from_row(&row)?;
            attempts.insert(attempt.rollout_id.clone(), attempt);
        }
    }
    Ok(attempts)
}

/// Stores a rollout unless its id is known; gives what is stored, and whether it is new.
pub(crate) async fn insert_rollout(
    write: &mut Write,
    new: NewRollout,
    status: RolloutStatus,
) -> Result<(Rollout, bool)> {
    if let Some(id) = &new.rollout_id
        && let Some(stored) = find_rollout(write.connection(), id).await?
    {
        return Ok((stored, false));
    }
    let mut rollout = Rollout {
        rollout_id: new.rollout_id.unwrap_or_else(new_rollout_id),
        input: new.input,
        start_time: now(),
        end_time: None,
        mode: new.mode,
        resources_id: new.resources_id,
        status,
        config: new.config.unwrap_or_default(),
        metadata: Some(new.metadata.unwrap_or_default()),
    };
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    let row = sqlx::query(
        "INSERT INTO rollouts (rollout_id, input, start_time, mode, resources_id, status, config, metadata, run_id,
             step, queue_position)
         VALUES ($1, $2, $3, $4,
             COALESCE($5, (SELECT resources_id FROM resources ORDER BY update_time DESC, position DESC LIMIT 1)),
             $6, $7, $8, $9, $10,
             CASE WHEN $11 = 1 THEN (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0) END)
         RETURNING resources_id",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(to_json("input", &rollout.input)?)
    .bind(rollout.start_time)
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_plain("resources_id", rollout.resources_id.as_deref())?)
    .bind(status.as_str())
    .bind(to_json("config", &rollout.config)?)
    .bind(to_optional_json("metadata", rollout.metadata.as_ref())?)
    .bind(optional_plain("metadata.run_id", run_id)?)
    .bind(step)
    .bind(i64::from(status.is_queued()))
    .fetch_one(write.connection())
    .await?;
    rollout.resources_id = column(&row, "resources_id")?;
    if status.is_queued() {
        write.rollout_was_queued();
    }
    Ok((rollout, true))
}

/// Which training run metadata says that a rollout belongs to, and to which of its steps.
pub(crate) fn run_and_step(metadata: Option<&Object>) -> (Option<&str>, Option<i64>) {
    let value = |key| metadata.and_then(|metadata| metadata.get(key));
    (value("run_id").and_then(Value::as_str), value("step").and_then(Value::as_i64))
}

/// Writes the fields of a rollout that have no rules of their own.
async fn store_fields(write: &mut Write, rollout: &Rollout) -> Result<()> {
    write.rollout_changed(&rollout.rollout_id);
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    sqlx::query(
        "UPDATE rollouts SET input = $2, mode = $3, resources_id = $4, config = $5, metadata = $6, run_id = $7,
             step = $8
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(to_json("input", &rollout.input)?)
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_plain("resources_id", rollout.resources_id.as_deref())?)
    .bind(to_json("config", &rollout.config)?)
    .bind(to_optional_json("metadata", rollout.metadata.as_ref())?)
    .bind(optional_plain("metadata.run_id", run_id)?)
    .bind(step)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// Sets a rollout's status, and with it its end and its place in the queue. The same status again changes nothing.
pub(crate) async fn set_rollout_status(write: &mut Write, rollout: &mut Rollout, status: RolloutStatus) -> Result<()> {
    if rollout.status == status {
        return Ok(());
    }
    rollout.status = status;
    rollout.end_time = status.is_finished().then(now);
    write.rollout_changed(&rollout.rollout_id);
    sqlx::query(
        "UPDATE rollouts SET status = $2, end_time = $3,
             queue_position = CASE WHEN $4 = 1
                 THEN COALESCE(queue_position, (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0)) END
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(status.as_str())
    .bind(OptionalReal(rollout.end_time))
    .bind(i64::from(status.is_queued()))
    .execute(write.connection())
    .await?;
    if status.is_queued() {
        write.rollout_was_queued();
    }
    if status.is_finished() {
        rollout_finished(write, &rollout.rollout_id).await?;
    }
    Ok(())
}

/// Gives a rollout its place among those that have finished, unless it has one already.
async fn rollout_finished(write: &mut Write, rollout_id: &str) -> Result<()> {
    sqlx::query(
        "INSERT INTO completions (position, rollout_id)
         SELECT COALESCE(MAX(position), 0) + 1, $1 FROM completions WHERE 1 = 1
         ON CONFLICT (rollout_id) DO NOTHING",
    )
    .bind(rollout_id)
    .execute(write.connection())
    .await?;
    write.rollout_finished();
    Ok(())
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
    write.attempt_began(&mut rollout, &attempt);
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
        crate::workers::worker_asked(write.connection(), worker_id).await?;
        if rows.is_empty() {
            worker_found_nothing(write.connection(), worker_id).await?;
        }
    }
    let mut taken = Vec::with_capacity(rows.len());
    for row in &rows {
        let handed_out = hand_out(write, rollout_from_row(row)?, worker_id, grader).await?;
        if let Some(lease) = lease {
            leases::begin(write.connection(), &handed_out.attempt, now() + lease.as_secs_f64()).await?;
        }
        taken.push(handed_out);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests;
