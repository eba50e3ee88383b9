//! Attempts: queries, updates, reports and heartbeats.

use fulgurite_types::{Attempt, AttemptNote, AttemptRef, AttemptUpdate, Page, Paginated};

use crate::Result;
use crate::database::sql::{Sql, to_integer};
use crate::list_pages::{ListKind, ListPages};
use crate::rollouts::attempts::Attempts;
use crate::rollouts::attempts::propagation::{
    AttemptWithRollout, apply_update, existing_attempt_with_rollout, find_attempt_with_rollout, write_metadata,
};
use crate::rollouts::attempts::rows::{SORT_FIELDS, attempt_from_row, existing_attempt, find_attempt};
use fulgurite_types::time::now;

impl Attempts {
    /// An attempt, if there is one.
    pub async fn get(&self, rollout_id: &str, attempt: impl Into<AttemptRef>) -> Result<Option<Attempt>> {
        let attempt = &attempt.into();
        self.database
            .patiently(|| async { find_attempt(&mut *self.database.reader().await?, rollout_id, attempt).await })
            .await
    }

    /// All attempts of a rollout, first to latest; none if it is not known.
    pub async fn of_rollout(&self, rollout_id: &str) -> Result<Vec<Attempt>> {
        Ok(self.query(rollout_id, &Page::default()).await?.items)
    }

    /// A page of the attempts of a rollout, sorted by `sequence_id` unless the query sorts otherwise.
    pub async fn query(&self, rollout_id: &str, page: &Page) -> Result<Paginated<Attempt>> {
        let mut connection = self.database.reader().await?;
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

    /// Attempts as [`Attempts::query`] gives them.
    pub async fn pages(&self, rollout_id: &str, page: &Page) -> Result<ListPages<Attempt>> {
        let of_rollout = |select: &str| {
            let mut sql = Sql::new(select);
            sql.push(" FROM attempts WHERE rollout_id = ").text(rollout_id);
            sql
        };
        let mut rows = of_rollout("SELECT *, sequence_id AS position");
        rows.push(" AND sequence_id IN ");
        let kind = ListKind { sort_fields: SORT_FIELDS, part: 128, read: attempt_from_row };
        let (total, places) = (of_rollout("SELECT COUNT(*)"), of_rollout("SELECT sequence_id AS position"));
        ListPages::find(&self.database, kind, &total, places, rows, page).await
    }

    /// Updates an attempt. If it is the latest of its rollout, the rollout follows: it runs, succeeds, fails, or goes back
    /// into the queue when its config allows another attempt.
    pub async fn update(
        &self,
        rollout_id: &str,
        attempt: impl Into<AttemptRef>,
        update: AttemptUpdate,
    ) -> Result<Attempt> {
        let (rollout_id, attempt) = (rollout_id.to_owned(), attempt.into());
        self.database
            .write(move |write| {
                Box::pin(async move {
                    // The rollout, whose input may be large, follows a status alone.
                    let found = match update.status {
                        Some(_) => existing_attempt_with_rollout(write.connection(), &rollout_id, &attempt).await?,
                        None => {
                            let attempt = existing_attempt(write.connection(), &rollout_id, &attempt).await?;
                            AttemptWithRollout { attempt, leads: None }
                        }
                    };
                    apply_update(write, found, update).await
                })
            })
            .await
    }

    /// As [`Attempts::update`], for a runner whose report may come late: an attempt that has ended, or that a
    /// later one has superseded, or whose rollout has finished, stays as it is and is given back unchanged.
    pub async fn report(&self, rollout_id: &str, attempt_id: &str, update: AttemptUpdate) -> Result<Attempt> {
        let (rollout_id, attempt) = (rollout_id.to_owned(), AttemptRef::Id(attempt_id.to_owned()));
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let found = existing_attempt_with_rollout(write.connection(), &rollout_id, &attempt).await?;
                    if found.is_over() {
                        return Ok(found.attempt);
                    }
                    apply_update(write, found, update).await
                })
            })
            .await
    }

    /// Notes something in an attempt's metadata, unless there is such a note already or the attempt has ended.
    pub async fn note(&self, rollout_id: &str, attempt_id: &str, note: AttemptNote) -> Result<()> {
        let (key, value) = note.entry();
        let is_noted = |attempt: &Attempt| {
            attempt.status.is_ended() || attempt.metadata.as_ref().is_some_and(|noted| noted.contains_key(key))
        };
        let attempt = AttemptRef::Id(attempt_id.to_owned());
        if is_noted(&existing_attempt(&mut *self.database.reader().await?, rollout_id, &attempt).await?) {
            return Ok(());
        }
        let rollout_id = rollout_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut found = existing_attempt(write.connection(), &rollout_id, &attempt).await?;
                    if !is_noted(&found) {
                        found.metadata.get_or_insert_default().insert(key.to_owned(), value.into());
                        write_metadata(write, &found).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Records heartbeats of these attempts (rollout id, attempt id). Returns those that exist with their state, so that a
    /// runner sees which of its attempts have ended; these are not changed.
    pub async fn heartbeat(&self, attempts: Vec<(String, String)>) -> Result<Vec<Attempt>> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut known = Vec::with_capacity(attempts.len());
                    for (rollout_id, attempt_id) in attempts {
                        let id = AttemptRef::Id(attempt_id);
                        let Some(found) = find_attempt_with_rollout(write.connection(), &rollout_id, &id).await? else {
                            continue;
                        };
                        known.push(if found.is_over() {
                            found.attempt
                        } else {
                            let update = AttemptUpdate { last_heartbeat_time: Some(now()), ..AttemptUpdate::default() };
                            apply_update(write, found, update).await?
                        });
                    }
                    Ok(known)
                })
            })
            .await
    }
}
