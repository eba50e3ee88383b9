//! Attempts: how they go, what that means for their rollout, and the watchdog over them.

use std::time::Duration;

use fulgurite_types::{Attempt, AttemptRef, AttemptStatus, AttemptUpdate, Page, Paginated, Rollout, RolloutStatus};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use tokio::task::JoinHandle;

use crate::checksums::{MASK, Recorded};
use crate::leases;
use crate::lifecycle::{overdue, propagate};
use crate::list_pages::{ListKind, ListPages};
use crate::rollouts::{existing_rollout, rollout_from_row, set_rollout_status};
use crate::sql::{
    OptionalReal, SortField, Sql, column, count, optional_json, optional_plain, plain, to_integer, to_optional_json,
    word,
};
use crate::workers::worker_follows;
use crate::writer::{Write, now};
use crate::{Result, Store, StoreError};

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("rollout_id"),
    SortField::text("attempt_id"),
    SortField::number("sequence_id"),
    SortField::time("start_time"),
    SortField::time("end_time"),
    SortField::text("status"),
    SortField::text("worker_id"),
    SortField::time("last_heartbeat_time"),
    SortField::text("metadata"),
];

/// What the latest attempt of a rollout is called where an id is expected.
const LATEST: &str = "latest";

impl Store {
    /// An attempt, if there is one.
    pub async fn get_attempt(&self, rollout_id: &str, attempt: impl Into<AttemptRef>) -> Result<Option<Attempt>> {
        find_attempt(&mut *self.reader().await?, rollout_id, &attempt.into()).await
    }

    /// All attempts of a rollout, first to latest; none if it is not known.
    pub async fn attempts(&self, rollout_id: &str) -> Result<Vec<Attempt>> {
        Ok(self.query_attempts(rollout_id, &Page::default()).await?.items)
    }

    /// A page of the attempts of a rollout, sorted by `sequence_id` unless told otherwise.
    pub async fn query_attempts(&self, rollout_id: &str, page: &Page) -> Result<Paginated<Attempt>> {
        let mut connection = self.reader().await?;
        let mut total = Sql::new("SELECT COUNT(*) FROM attempts WHERE rollout_id = ");
        total.text(rollout_id);
        let mut sql = Sql::new("SELECT *, sequence_id AS position FROM attempts WHERE rollout_id = ");
        sql.text(rollout_id).page(page, SORT_FIELDS)?;
        Ok(Paginated {
            total: total.total(&mut connection).await?,
            items: sql.all(&mut connection).await?.iter().map(attempt_from_row).collect::<Result<_>>()?,
            limit: page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: page.offset,
        })
    }

    /// Attempts as [`Store::query_attempts`] gives them.
    pub async fn attempt_pages(&self, rollout_id: &str, page: &Page) -> Result<ListPages<Attempt>> {
        let of_rollout = |select: &str| {
            let mut sql = Sql::new(select);
            sql.push(" FROM attempts WHERE rollout_id = ").text(rollout_id);
            sql
        };
        let mut rows = of_rollout("SELECT *, sequence_id AS position");
        rows.push(" AND sequence_id IN ");
        let kind = ListKind { sort_fields: SORT_FIELDS, part: 128, read: attempt_from_row };
        let (total, places) = (of_rollout("SELECT COUNT(*)"), of_rollout("SELECT sequence_id AS position"));
        ListPages::find(self, kind, &total, places, rows, page).await
    }

    /// Changes an attempt as told. If it is the latest of its rollout, the rollout follows: it runs, succeeds, fails,
    /// or goes back into the queue when its config asks for another attempt.
    pub async fn update_attempt(
        &self,
        rollout_id: &str,
        attempt: impl Into<AttemptRef>,
        update: AttemptUpdate,
    ) -> Result<Attempt> {
        let (rollout_id, attempt) = (rollout_id.to_owned(), attempt.into());
        self.write(move |write| {
            Box::pin(async move {
                // The rollout, whose input may be large, follows a status alone.
                let standing = match update.status {
                    Some(_) => existing_standing(write.connection(), &rollout_id, &attempt).await?,
                    None => {
                        let attempt = existing_attempt(write.connection(), &rollout_id, &attempt).await?;
                        Standing { attempt, leads: None }
                    }
                };
                apply_standing(write, standing, update).await
            })
        })
        .await
    }

    /// As [`Store::update_attempt`], for a runner whose report may come late: an attempt that has ended, or that a
    /// later one has superseded, or whose rollout has finished, stays as it is and is given back unchanged.
    pub async fn report_attempt(&self, rollout_id: &str, attempt_id: &str, update: AttemptUpdate) -> Result<Attempt> {
        let (rollout_id, attempt) = (rollout_id.to_owned(), AttemptRef::Id(attempt_id.to_owned()));
        self.write(move |write| {
            Box::pin(async move {
                let standing = existing_standing(write.connection(), &rollout_id, &attempt).await?;
                if standing.is_over() {
                    return Ok(standing.attempt);
                }
                apply_standing(write, standing, update).await
            })
        })
        .await
    }

    /// Says that these attempts (rollout id, attempt id) are alive. Gives those that are known as they stand, so that
    /// a runner sees which of its attempts have been ended from outside; those are not changed.
    pub async fn heartbeat_attempts(&self, attempts: Vec<(String, String)>) -> Result<Vec<Attempt>> {
        self.write(move |write| {
            Box::pin(async move {
                let mut known = Vec::with_capacity(attempts.len());
                for (rollout_id, attempt_id) in attempts {
                    let id = AttemptRef::Id(attempt_id);
                    let Some(standing) = find_standing(write.connection(), &rollout_id, &id).await? else { continue };
                    known.push(if standing.is_over() {
                        standing.attempt
                    } else {
                        let update = AttemptUpdate { last_heartbeat_time: Some(now()), ..AttemptUpdate::default() };
                        apply_standing(write, standing, update).await?
                    });
                }
                Ok(known)
            })
        })
        .await
    }

    /// Ends every attempt that takes too long or has not been heard of for too long, by its rollout's config, and takes
    /// those back whose lease is over. Gives the attempts that it has ended.
    pub async fn scan_watchdog(&self) -> Result<Vec<Attempt>> {
        self.scan_watchdog_at(now()).await
    }

    pub(crate) async fn scan_watchdog_at(&self, time: f64) -> Result<Vec<Attempt>> {
        // Looking needs no transaction; only when something is overdue is one made, which looks again.
        let mut reader = self.reader().await?;
        if leases::expired(&mut reader, time).await?.is_empty() && overdue_attempts(&mut reader, time).await?.is_empty()
        {
            return Ok(Vec::new());
        }
        drop(reader);
        self.write(move |write| {
            Box::pin(async move {
                for attempt in leases::expired(write.connection(), time).await? {
                    leases::take_back(write, &attempt).await?;
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

pub(crate) fn attempt_from_row(row: &AnyRow) -> Result<Attempt> {
    Ok(Attempt {
        rollout_id: column(row, "rollout_id")?,
        attempt_id: column(row, "attempt_id")?,
        sequence_id: count(row, "sequence_id")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        status: word(row, "status")?,
        worker_id: column(row, "worker_id")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        metadata: optional_json(row, "metadata")?,
        grader: column(row, "grader")?,
    })
}

/// Columns of a rollout `r` and beside them those of an attempt `a`, for [`attempt_beside_rollout`].
macro_rules! rollout_and_attempt {
    () => {
        "r.*, a.attempt_id, a.sequence_id, a.start_time AS attempt_start_time, a.end_time AS attempt_end_time,
         a.status AS attempt_status, a.worker_id, a.last_heartbeat_time, a.metadata AS attempt_metadata,
         a.grader"
    };
}
pub(crate) use rollout_and_attempt;

/// The attempt in a row of a rollout that has the columns of one attempt as well, those that both have as `attempt_..`;
/// they are null where there is none.
pub(crate) fn attempt_beside_rollout(row: &AnyRow) -> Result<Option<Attempt>> {
    let Some(attempt_id) = column(row, "attempt_id")? else { return Ok(None) };
    Ok(Some(Attempt {
        rollout_id: column(row, "rollout_id")?,
        attempt_id,
        sequence_id: count(row, "sequence_id")?,
        start_time: column(row, "attempt_start_time")?,
        end_time: column(row, "attempt_end_time")?,
        status: word(row, "attempt_status")?,
        worker_id: column(row, "worker_id")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        metadata: optional_json(row, "attempt_metadata")?,
        grader: column(row, "grader")?,
    }))
}

pub(crate) async fn latest_attempt(connection: &mut AnyConnection, rollout_id: &str) -> Result<Option<Attempt>> {
    let row = sqlx::query("SELECT * FROM attempts WHERE rollout_id = $1 ORDER BY sequence_id DESC LIMIT 1")
        .bind(rollout_id)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(attempt_from_row).transpose()
}

pub(crate) async fn find_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Option<Attempt>> {
    let AttemptRef::Id(attempt_id) = attempt else { return latest_attempt(connection, rollout_id).await };
    let row = sqlx::query("SELECT * FROM attempts WHERE rollout_id = $1 AND attempt_id = $2")
        .bind(rollout_id)
        .bind(attempt_id.as_str())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(attempt_from_row).transpose()
}

/// An attempt, or which of the two, rollout or attempt, is not there.
pub(crate) async fn existing_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Attempt> {
    match find_attempt(connection, rollout_id, attempt).await? {
        Some(attempt) => Ok(attempt),
        None => Err(no_such_attempt(connection, rollout_id, attempt).await),
    }
}

async fn no_such_attempt(connection: &mut AnyConnection, rollout_id: &str, attempt: &AttemptRef) -> StoreError {
    match existing_rollout(connection, rollout_id).await {
        Ok(_) => StoreError::not_found("attempt", if let AttemptRef::Id(id) = attempt { id } else { LATEST }),
        Err(error) => error,
    }
}

/// The id of an attempt that is to be made. In paths, one word stands for whichever is the latest.
pub(crate) fn new_attempt_name(attempt_id: &str) -> Result<&str> {
    match attempt_id {
        LATEST => Err(StoreError::invalid("attempt_id", "must not be `latest`, which stands for the latest attempt")),
        _ => plain("attempt_id", attempt_id),
    }
}

pub(crate) async fn insert_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt_id: &str,
    worker_id: Option<&str>,
    grader: Option<&str>,
) -> Result<Attempt> {
    let row = sqlx::query(
        "INSERT INTO attempts (rollout_id, attempt_id, sequence_id, start_time, status, worker_id, grader, span_count,
             generation_count, digest)
         SELECT $1, $2, COALESCE(MAX(sequence_id), 0) + 1, $3, 'preparing', $4, $5, 0, 0, 0 FROM attempts
         WHERE rollout_id = $1
         RETURNING *",
    )
    .bind(rollout_id)
    .bind(new_attempt_name(attempt_id)?)
    .bind(now())
    .bind(optional_plain("worker_id", worker_id)?)
    .bind(optional_plain("grader", grader)?)
    .fetch_one(connection)
    .await?;
    attempt_from_row(&row)
}

/// An attempt, and its rollout if it is the latest of it: that one follows it.
struct Standing {
    attempt: Attempt,
    leads: Option<Rollout>,
}

impl Standing {
    /// Whether nothing that the attempt still says can matter.
    fn is_over(&self) -> bool {
        self.attempt.status.is_ended() || self.leads.as_ref().is_none_or(|rollout| rollout.status.is_finished())
    }
}

async fn find_standing(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Option<Standing>> {
    let query = match attempt {
        AttemptRef::Id(attempt_id) => sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            ", (SELECT MAX(sequence_id) FROM attempts WHERE rollout_id = $1) AS latest
             FROM attempts a JOIN rollouts r ON r.rollout_id = a.rollout_id
             WHERE a.rollout_id = $1 AND a.attempt_id = $2"
        ))
        .bind(rollout_id)
        .bind(attempt_id.as_str()),
        AttemptRef::Latest => sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            ", a.sequence_id AS latest FROM attempts a JOIN rollouts r ON r.rollout_id = a.rollout_id
             WHERE a.rollout_id = $1 ORDER BY a.sequence_id DESC LIMIT 1"
        ))
        .bind(rollout_id),
    };
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    let Some(attempt) = attempt_beside_rollout(&row)? else { return Ok(None) };
    let is_latest = attempt.sequence_id == count::<u32>(&row, "latest")?;
    let leads = if is_latest { Some(rollout_from_row(&row)?) } else { None };
    Ok(Some(Standing { attempt, leads }))
}

/// As [`existing_attempt`], with the rollout that it leads.
async fn existing_standing(connection: &mut AnyConnection, rollout_id: &str, attempt: &AttemptRef) -> Result<Standing> {
    match find_standing(connection, rollout_id, attempt).await? {
        Some(standing) => Ok(standing),
        None => Err(no_such_attempt(connection, rollout_id, attempt).await),
    }
}

/// The rollout of an attempt that is its latest.
async fn rollout_led_by(connection: &mut AnyConnection, attempt: &Attempt) -> Result<Option<Rollout>> {
    let row = sqlx::query(
        "SELECT * FROM rollouts WHERE rollout_id = $1
             AND NOT EXISTS (SELECT 1 FROM attempts WHERE rollout_id = $1 AND sequence_id > $2)",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(i64::from(attempt.sequence_id))
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(rollout_from_row).transpose()
}

/// Changes an attempt and everything that follows it: its rollout and its worker.
pub(crate) async fn apply(write: &mut Write, attempt: Attempt, update: AttemptUpdate) -> Result<Attempt> {
    let leads = match update.status {
        Some(_) => rollout_led_by(write.connection(), &attempt).await?,
        None => None,
    };
    apply_standing(write, Standing { attempt, leads }, update).await
}

async fn apply_standing(write: &mut Write, standing: Standing, update: AttemptUpdate) -> Result<Attempt> {
    let Standing { mut attempt, leads } = standing;
    if update.last_heartbeat_time.is_some_and(|time| !time.is_finite()) {
        return Err(StoreError::invalid("last_heartbeat_time", "is not a finite number"));
    }
    write.rollout_changed(&attempt.rollout_id);
    attempt.worker_id = update.worker_id.or(attempt.worker_id);
    attempt.last_heartbeat_time = update.last_heartbeat_time.or(attempt.last_heartbeat_time);
    attempt.metadata = update.metadata.or(attempt.metadata);
    if let Some(status) = update.status {
        attempt.status = status;
        attempt.end_time = status.is_ended().then(now);
        if status.is_ended() {
            write.attempt_ended(&attempt);
        }
    }
    sqlx::query(
        "UPDATE attempts SET status = $3, end_time = $4, worker_id = $5, last_heartbeat_time = $6, metadata = $7
         WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .bind(attempt.status.as_str())
    .bind(OptionalReal(attempt.end_time))
    .bind(optional_plain("worker_id", attempt.worker_id.as_deref())?)
    .bind(OptionalReal(attempt.last_heartbeat_time))
    .bind(to_optional_json("metadata", attempt.metadata.as_ref())?)
    .execute(write.connection())
    .await?;
    if update.status.is_some() {
        worker_follows(write.connection(), &attempt).await?;
        if let Some(mut rollout) = leads {
            let status = propagate(attempt.status, attempt.sequence_id, &rollout.config);
            set_rollout_status(write, &mut rollout, status).await?;
        }
    }
    Ok(attempt)
}

/// Notes that an attempt has been heard of: it runs if it was preparing or thought unresponsive, and so does a rollout
/// that waits for its latest attempt. An attempt that has ended otherwise stays ended.
pub(crate) async fn hear_of(write: &mut Write, rollout_id: &str, attempt_id: &str, recorded: Recorded) -> Result<()> {
    let row = sqlx::query(
        "UPDATE attempts SET last_heartbeat_time = $3, span_count = span_count + $4,
             generation_count = generation_count + $5, digest = (digest + $6) & $7,
             end_time = CASE WHEN status = 'unresponsive' THEN NULL ELSE end_time END,
             status = CASE WHEN status IN ('preparing', 'unresponsive') THEN 'running' ELSE status END
         WHERE rollout_id = $1 AND attempt_id = $2
         RETURNING sequence_id, status, (SELECT status FROM rollouts WHERE rollout_id = $1) AS rollout_status",
    )
    .bind(rollout_id)
    .bind(attempt_id)
    .bind(now())
    .bind(recorded.spans)
    .bind(recorded.generations)
    .bind(recorded.digest)
    .bind(MASK)
    .fetch_optional(write.connection())
    .await?;
    let Some(row) = row else {
        existing_rollout(write.connection(), rollout_id).await?;
        return Err(StoreError::not_found("attempt", attempt_id));
    };
    write.attempt_was_heard_of(rollout_id, attempt_id);
    let waits = matches!(word(&row, "rollout_status")?, RolloutStatus::Preparing | RolloutStatus::Requeuing);
    if !waits || word::<AttemptStatus>(&row, "status")? != AttemptStatus::Running {
        return Ok(());
    }
    sqlx::query(
        "UPDATE rollouts SET status = 'running', queue_position = NULL
         WHERE rollout_id = $1 AND status IN ('preparing', 'requeuing')
             AND NOT EXISTS (SELECT 1 FROM attempts WHERE rollout_id = $1 AND sequence_id > $2)",
    )
    .bind(rollout_id)
    .bind(column::<i64>(&row, "sequence_id")?)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// Counts what an attempt that is there has got, which is not heard of by that.
pub(crate) async fn count_in(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt_id: &str,
    recorded: Recorded,
) -> Result<()> {
    sqlx::query(
        "UPDATE attempts SET span_count = span_count + $3, generation_count = generation_count + $4,
             digest = (digest + $5) & $6
         WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(rollout_id)
    .bind(attempt_id)
    .bind(recorded.spans)
    .bind(recorded.generations)
    .bind(recorded.digest)
    .bind(MASK)
    .execute(connection)
    .await?;
    Ok(())
}

/// The latest attempts of rollouts under way that are overdue, and what they become.
async fn overdue_attempts(connection: &mut AnyConnection, time: f64) -> Result<Vec<(Attempt, AttemptStatus)>> {
    // The first condition says what the index holds.
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
