//! Which process trains a run: one at a time, wherever copies of the run's directory are.

use fulgurite_types::{RunClaim, RunLease, RunOwner};
use sqlx::AnyConnection;

use crate::database::sql::{Sql, checked_id, column, json, plain, to_json};
use crate::runs::Runs;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// The longest time that a process may have a run for without a word.
const LONGEST_SECONDS: f64 = 3600.0;

impl Runs {
    /// Gives a run to the process that asks for it, renews what that process has, or takes it back from it; unless another
    /// process has the run. Gives the lease that is in force then, which names the process that has the run.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the time is negative or longer than an hour.
    pub async fn claim(&self, claim: RunClaim) -> Result<RunLease> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let RunClaim { run_id, owner, seconds, ended_owner } = claim;
                    if !(0.0..=LONGEST_SECONDS).contains(&seconds) {
                        let message = format!("is {seconds}, and may be 0 to {LONGEST_SECONDS}");
                        return Err(StoreError::invalid("seconds", message));
                    }
                    checked_id("run_id", &run_id)?;
                    checked_id("owner.owner_id", &owner.owner_id)?;
                    let now = now();
                    let mut start_time = now;
                    if let Some(lease) = current(write.connection(), &run_id, now).await? {
                        let is_own = lease.owner.owner_id == owner.owner_id;
                        let has_ended = ended_owner.as_ref() == Some(&lease.owner.owner_id) || lease.end_time <= now;
                        if !is_own && !has_ended {
                            return Ok(lease);
                        }
                        if is_own {
                            start_time = lease.start_time;
                        }
                    }
                    if seconds <= 0.0 {
                        // Whoever gives a run back, or only asks who has it, leaves nothing.
                        let mut sql = Sql::new("DELETE FROM run_leases WHERE run_id = ");
                        sql.text(&run_id);
                        sql.execute(write.connection()).await?;
                        return Ok(RunLease { run_id, owner, start_time, end_time: now, seconds_left: 0.0 });
                    }
                    let owner_json = to_json("owner", &owner)?;
                    sqlx::query(
                    "INSERT INTO run_leases (run_id, owner_id, owner, start_time, end_time) VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (run_id) DO UPDATE SET owner_id = excluded.owner_id, owner = excluded.owner,
                         start_time = excluded.start_time, end_time = excluded.end_time",
                )
                .bind(run_id.as_str())
                .bind(owner.owner_id.as_str())
                .bind(plain("owner", &owner_json)?)
                .bind(start_time)
                .bind(now + seconds)
                .execute(write.connection())
                .await?;
                    Ok(RunLease { run_id, owner, start_time, end_time: now + seconds, seconds_left: seconds })
                })
            })
            .await
    }
}

async fn current(connection: &mut AnyConnection, run_id: &str, now: f64) -> Result<Option<RunLease>> {
    let mut sql = Sql::new("SELECT run_id, owner, start_time, end_time FROM run_leases WHERE run_id = ");
    sql.text(run_id);
    let rows = sql.all(connection).await?;
    let read = |row| {
        let end_time: f64 = column(row, "end_time")?;
        let owner: RunOwner = json(row, "owner")?;
        let (run_id, start_time) = (column(row, "run_id")?, column(row, "start_time")?);
        Ok(RunLease { run_id, owner, start_time, end_time, seconds_left: end_time - now })
    };
    rows.first().map(read).transpose()
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{RunClaim, RunOwner};

    use crate::testing::TestStore;

    fn claim(owner_id: &str, seconds: f64, ended_owner: Option<&str>) -> RunClaim {
        let owner = RunOwner { owner_id: owner_id.to_owned(), ..RunOwner::default() };
        RunClaim { run_id: "run".to_owned(), owner, seconds, ended_owner: ended_owner.map(str::to_owned) }
    }

    #[tokio::test]
    async fn a_run_has_one_owner_until_that_gives_it_back_falls_silent_or_is_known_to_have_ended() {
        let store = TestStore::new().await;
        for (place, (claim, expected)) in [
            (claim("a", 3600.0, None), "a"),
            (claim("b", 3600.0, None), "a"),
            (claim("a", 3600.0, None), "a"),
            // Another is known to have ended.
            (claim("b", 3600.0, Some("c")), "a"),
            (claim("b", 3600.0, Some("a")), "b"),
            // Who lost it does not renew it.
            (claim("a", 3600.0, None), "b"),
            // Nor gives back what is another's.
            (claim("a", 0.0, None), "b"),
            (claim("c", 3600.0, None), "b"),
            (claim("b", 0.0, None), "b"),
            (claim("c", 0.0, None), "c"),
            // It fell silent, and nobody took the run meanwhile.
            (claim("c", 3600.0, None), "c"),
        ]
        .into_iter()
        .enumerate()
        {
            let lease = store.runs().claim(claim).await.unwrap();
            assert_eq!(lease.owner.owner_id, expected, "{place}");
        }
        let leases = async || store.queries().query_sql("SELECT run_id FROM run_leases").await.unwrap().rows.len();
        assert_eq!(leases().await, 1);
        store.runs().claim(claim("c", 0.0, None)).await.unwrap();
        assert_eq!(leases().await, 0, "what is given back leaves no row");
        let other_run = RunClaim { run_id: "other".to_owned(), ..claim("a", 1.0, None) };
        assert_eq!(store.runs().claim(other_run).await.unwrap().owner.owner_id, "a");
        for seconds in [-1.0, 3601.0, f64::NAN] {
            assert!(store.runs().claim(claim("c", seconds, None)).await.is_err(), "{seconds}");
        }
    }
}
