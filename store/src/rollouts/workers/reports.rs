//! Workers: who they are, what they run, and what happens when they leave.

use fulgurite_types::{Attempt, AttemptStatus, AttemptUpdate, Object, Paginated, Worker, WorkerFilter};

use crate::Result;
use crate::database::sql::{Conditions, SortField, Sql, checked_id, to_integer, to_optional_json};
use crate::list_pages::{ListKind, ListPages};
use crate::rollouts::attempts::propagation::apply;
use crate::rollouts::attempts::rows::attempt_from_row;
use crate::rollouts::workers::Workers;
use crate::rollouts::workers::rows::worker_from_row;
use fulgurite_types::time::now;

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

impl Workers {
    /// A worker, if it is known.
    pub async fn get(&self, worker_id: &str) -> Result<Option<Worker>> {
        let row = sqlx::query("SELECT * FROM workers WHERE worker_id = $1")
            .bind(worker_id)
            .fetch_optional(&mut *self.database.reader().await?)
            .await?;
        row.as_ref().map(worker_from_row).transpose()
    }

    /// Workers that meet a filter.
    pub async fn query(&self, filter: &WorkerFilter) -> Result<Paginated<Worker>> {
        let mut connection = self.database.reader().await?;
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

    /// Workers as [`Workers::query`] gives them.
    pub async fn pages(&self, filter: &WorkerFilter) -> Result<ListPages<Worker>> {
        let mut total = Sql::new("SELECT COUNT(*) FROM workers");
        push_conditions(&mut total, filter);
        let mut places = Sql::new("SELECT position FROM workers");
        push_conditions(&mut places, filter);
        let rows = Sql::new("SELECT * FROM workers WHERE position IN ");
        let kind = ListKind { sort_fields: SORT_FIELDS, part: 128, read: worker_from_row };
        ListPages::find(&self.database, kind, &total, places, rows, &filter.page).await
    }

    /// Records a worker and the statistics of its machine. An unknown worker is created.
    pub async fn update(&self, worker_id: &str, heartbeat_stats: Option<Object>) -> Result<Worker> {
        let worker_id = worker_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let row = sqlx::query(
                        "INSERT INTO workers (worker_id, status, heartbeat_stats, last_heartbeat_time)
                     VALUES ($1, 'unknown', $2, $3)
                     ON CONFLICT (worker_id) DO UPDATE SET last_heartbeat_time = excluded.last_heartbeat_time,
                         heartbeat_stats = COALESCE(excluded.heartbeat_stats, workers.heartbeat_stats)
                     RETURNING *",
                    )
                    .bind(checked_id("worker_id", &worker_id)?)
                    .bind(to_optional_json("heartbeat_stats", heartbeat_stats.as_ref())?)
                    .bind(now())
                    .fetch_one(write.connection())
                    .await?;
                    worker_from_row(&row)
                })
            })
            .await
    }

    /// Records that a worker has gone: the attempts that it was running become unresponsive at once, so that they are
    /// retried where their config allows it. Returns the attempts that were ended.
    pub async fn release(&self, worker_id: &str) -> Result<Vec<Attempt>> {
        let worker_id = worker_id.to_owned();
        self.database
            .write(move |write| {
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
