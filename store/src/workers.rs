//! Workers: who they are, what they run, and what happens when they leave.

use fulgurite_types::{Attempt, AttemptStatus, AttemptUpdate, Object, Paginated, Worker, WorkerFilter, WorkerStatus};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::attempts::{apply, attempt_from_row};
use crate::list_pages::{ListKind, ListPages};
use crate::sql::{Conditions, SortField, Sql, column, optional_json, plain, to_integer, to_optional_json, word};
use crate::writer::now;
use crate::{Result, Store};

const SORT_FIELDS: &[SortField] = &[
    SortField::text("worker_id"),
    SortField::text("status"),
    SortField::text("heartbeat_stats"),
    SortField::time("last_heartbeat_time"),
    SortField::time("last_dequeue_time"),
    SortField::time("last_busy_time"),
    SortField::time("last_idle_time"),
    SortField::text("current_rollout_id"),
    SortField::text("current_attempt_id"),
];

impl Store {
    /// A worker, if it is known.
    pub async fn worker(&self, worker_id: &str) -> Result<Option<Worker>> {
        let row = sqlx::query("SELECT * FROM workers WHERE worker_id = $1")
            .bind(worker_id)
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.as_ref().map(worker_from_row).transpose()
    }

    /// Workers that meet a filter.
    pub async fn query_workers(&self, filter: &WorkerFilter) -> Result<Paginated<Worker>> {
        let mut connection = self.reader().await?;
        let mut total = Sql::new("SELECT COUNT(*) FROM workers");
        push_conditions(&mut total, filter);
        let mut page = Sql::new("SELECT * FROM workers");
        push_conditions(&mut page, filter);
        page.page(&filter.page, SORT_FIELDS)?;
        Ok(Paginated {
            total: total.total(&mut connection).await?,
            items: page.all(&mut connection).await?.iter().map(worker_from_row).collect::<Result<_>>()?,
            limit: filter.page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: filter.page.offset,
        })
    }

    /// Workers as [`Store::query_workers`] gives them.
    pub async fn worker_pages(&self, filter: &WorkerFilter) -> Result<ListPages<Worker>> {
        let mut total = Sql::new("SELECT COUNT(*) FROM workers");
        push_conditions(&mut total, filter);
        let mut places = Sql::new("SELECT position FROM workers");
        push_conditions(&mut places, filter);
        let rows = Sql::new("SELECT * FROM workers WHERE position IN ");
        let kind = ListKind { sort_fields: SORT_FIELDS, part: 128, read: worker_from_row };
        ListPages::find(self, kind, &total, places, rows, &filter.page).await
    }

    /// Notes that a worker is there, and what it says of its machine. An unknown worker becomes known.
    pub async fn update_worker(&self, worker_id: &str, heartbeat_stats: Option<Object>) -> Result<Worker> {
        let worker_id = worker_id.to_owned();
        self.write(move |write| {
            Box::pin(async move {
                let row = sqlx::query(
                    "INSERT INTO workers (worker_id, status, heartbeat_stats, last_heartbeat_time)
                     VALUES ($1, 'unknown', $2, $3)
                     ON CONFLICT (worker_id) DO UPDATE SET last_heartbeat_time = excluded.last_heartbeat_time,
                         heartbeat_stats = COALESCE(excluded.heartbeat_stats, workers.heartbeat_stats)
                     RETURNING *",
                )
                .bind(plain("worker_id", &worker_id)?)
                .bind(to_optional_json("heartbeat_stats", heartbeat_stats.as_ref())?)
                .bind(now())
                .fetch_one(write.connection())
                .await?;
                worker_from_row(&row)
            })
        })
        .await
    }

    /// Says that a worker has gone: what it was running becomes unresponsive at once, so that it is retried where its
    /// config says so. Gives the attempts that were ended.
    pub async fn release_worker(&self, worker_id: &str) -> Result<Vec<Attempt>> {
        let worker_id = worker_id.to_owned();
        self.write(move |write| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "SELECT * FROM attempts WHERE worker_id = $1 AND status IN ('preparing', 'running')
                     ORDER BY start_time",
                )
                .bind(worker_id)
                .fetch_all(write.connection())
                .await?;
                let mut released = Vec::with_capacity(rows.len());
                for row in &rows {
                    let update = AttemptUpdate::status(AttemptStatus::Unresponsive);
                    released.push(apply(write, attempt_from_row(row)?, update).await?);
                }
                Ok(released)
            })
        })
        .await
    }
}

fn push_conditions(sql: &mut Sql, filter: &WorkerFilter) {
    sql.push(" WHERE 1 = 1");
    let mut conditions = Conditions::new(filter.filter_logic);
    if let Some(statuses) = &filter.status_in {
        conditions.one_of(sql, "status", statuses.iter().map(|status| status.as_str()));
    }
    if let Some(part) = &filter.worker_id_contains {
        conditions.contains(sql, "worker_id", part);
    }
    conditions.close(sql);
}

pub(crate) fn worker_from_row(row: &AnyRow) -> Result<Worker> {
    Ok(Worker {
        worker_id: column(row, "worker_id")?,
        status: word(row, "status")?,
        heartbeat_stats: optional_json(row, "heartbeat_stats")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        last_dequeue_time: column(row, "last_dequeue_time")?,
        last_busy_time: column(row, "last_busy_time")?,
        last_idle_time: column(row, "last_idle_time")?,
        current_rollout_id: column(row, "current_rollout_id")?,
        current_attempt_id: column(row, "current_attempt_id")?,
    })
}

/// Notes that a worker has asked for work.
pub(crate) async fn worker_asked(connection: &mut AnyConnection, worker_id: &str) -> Result<()> {
    sqlx::query(
        "INSERT INTO workers (worker_id, status, last_dequeue_time) VALUES ($1, 'unknown', $2)
         ON CONFLICT (worker_id) DO UPDATE SET last_dequeue_time = excluded.last_dequeue_time",
    )
    .bind(plain("worker_id", worker_id)?)
    .bind(now())
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that there was none: the worker is idle, since now if it was not before.
pub(crate) async fn worker_found_nothing(connection: &mut AnyConnection, worker_id: &str) -> Result<()> {
    sqlx::query(
        "UPDATE workers SET status = 'idle', last_idle_time = $2, current_rollout_id = NULL, current_attempt_id = NULL
         WHERE worker_id = $1 AND status <> 'idle'",
    )
    .bind(worker_id)
    .bind(now())
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that a worker is busy with an attempt.
pub(crate) async fn worker_took(connection: &mut AnyConnection, worker_id: &str, attempt: &Attempt) -> Result<()> {
    sqlx::query(
        "INSERT INTO workers (worker_id, status, last_busy_time, current_rollout_id, current_attempt_id)
         VALUES ($1, 'busy', $2, $3, $4)
         ON CONFLICT (worker_id) DO UPDATE SET status = excluded.status, last_busy_time = excluded.last_busy_time,
             current_rollout_id = excluded.current_rollout_id, current_attempt_id = excluded.current_attempt_id",
    )
    .bind(plain("worker_id", worker_id)?)
    .bind(attempt.start_time)
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .execute(connection)
    .await?;
    Ok(())
}

/// Lets an attempt's worker follow its new status. A worker that has gone on to another attempt is left alone when
/// an earlier one ends.
pub(crate) async fn worker_follows(connection: &mut AnyConnection, attempt: &Attempt) -> Result<()> {
    let Some(worker_id) = attempt.worker_id.as_deref() else { return Ok(()) };
    let status = match attempt.status {
        AttemptStatus::Preparing | AttemptStatus::Running => return worker_took(connection, worker_id, attempt).await,
        AttemptStatus::Succeeded | AttemptStatus::Failed => WorkerStatus::Idle,
        AttemptStatus::Timeout | AttemptStatus::Unresponsive => WorkerStatus::Unknown,
    };
    sqlx::query(
        "UPDATE workers SET status = $2, last_idle_time = $3, current_rollout_id = NULL, current_attempt_id = NULL
         WHERE worker_id = $1 AND (current_attempt_id IS NULL OR
             (current_rollout_id = $4 AND current_attempt_id = $5))",
    )
    .bind(worker_id)
    .bind(status.as_str())
    .bind(now())
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .execute(connection)
    .await?;
    Ok(())
}
