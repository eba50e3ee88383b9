//! Finding rollouts, changing them, and waiting for their end.

use std::collections::HashMap;
use std::time::Duration;

use fulgurite_types::{Attempt, Paginated, Rollout, RolloutFilter, RolloutUpdate};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Result;
use crate::database::sql::{Sql, to_integer};
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::rows::{attempt_next_to_rollout, latest_attempts, rollout_and_attempt};
use crate::rollouts::changes::{set_rollout_status, store_fields, validate_config};
use crate::rollouts::rows::{
    IDS_PER_QUERY, SORT_FIELDS, existing_rollout, find_rollout, push_conditions, rollout_from_row,
};

impl Rollouts {
    /// A rollout and its latest attempt.
    pub async fn get(&self, rollout_id: &str) -> Result<Option<(Rollout, Option<Attempt>)>> {
        let row = sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            " FROM rollouts r LEFT JOIN attempts a ON a.rollout_id = r.rollout_id
             WHERE r.rollout_id = $1 ORDER BY a.sequence_id DESC LIMIT 1",
        ))
        .bind(rollout_id)
        .fetch_optional(&mut *self.database.reader().await?)
        .await?;
        row.as_ref().map(|row| Ok((rollout_from_row(row)?, attempt_next_to_rollout(row)?))).transpose()
    }

    /// Rollouts that meet a filter, each with its latest attempt.
    pub async fn query(&self, filter: &RolloutFilter) -> Result<Paginated<(Rollout, Option<Attempt>)>> {
        let mut connection = self.database.reader().await?;
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

    /// Updates a rollout without any check of the transition.
    pub async fn update(&self, rollout_id: &str, update: RolloutUpdate) -> Result<Rollout> {
        if let Some(config) = &update.config {
            validate_config(config.max_attempts)?;
        }
        let rollout_id = rollout_id.to_owned();
        self.database
            .write(move |write| {
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
    pub async fn wait_for(&self, rollout_ids: &[String], timeout: Option<Duration>) -> Result<Vec<Rollout>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut finished = self.database.signals().finished.subscribe();
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
        let rollout = find_rollout(&mut *self.database.reader().await?, rollout_id).await?;
        Ok(rollout.is_none_or(|rollout| rollout.status.is_finished()))
    }

    async fn rollouts_by_id(&self, rollout_ids: &[String]) -> Result<Vec<Rollout>> {
        let mut connection = self.database.reader().await?;
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
            () = self.database.signals().closed() => false,
        }
    }
}
