//! Servers that have the store open, and those that were killed: what these recorded last may never have arrived.
//!
//! A server's row is made when it starts and removed when it has shut down in order, so that the row of a server that was
//! killed stays. On SQLite no two servers have a file at the same time. On PostgreSQL each holds an advisory lock of its
//! number, which goes with its connection (`database::listener`).

use fulgurite_types::time::now;

use crate::database::dialect::Dialect;
use crate::database::sql::{Sql, column};
use crate::open_database::Database;
use crate::{Result, StoreError};

/// The servers that have the store open, and those that were killed.
#[derive(Clone, Debug)]
pub struct Servers {
    database: Database,
}

impl Servers {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// Notes that this server answers from now on.
    pub async fn start(&self) -> Result<()> {
        let server_id = self.database.server_id();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let insert = "INSERT INTO servers (server_id, start_time) VALUES ($1, $2)
                        ON CONFLICT (server_id) DO NOTHING";
                    sqlx::query(insert).bind(server_id).bind(now()).execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Notes that this server has ended in order: whoever waited for an answer has it, or is known not to have it.
    pub async fn end(&self) -> Result<()> {
        let server_id = self.database.server_id();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let delete = "DELETE FROM servers WHERE server_id = $1";
                    sqlx::query(delete).bind(server_id).execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Whether another server recorded this generation, or gave it again last, and was killed since: then nobody knows
    /// whether its client has it.
    pub async fn is_of_killed(&self, generation_id: &str) -> Result<bool> {
        let mut sql = Sql::new(
            "SELECT s.server_id AS server_id FROM generations g JOIN servers s ON s.server_id = g.server_id
             WHERE g.generation_id = ",
        );
        sql.text(generation_id);
        let mut reader = self.database.reader().await?;
        let Some(row) = sql.all(&mut reader).await?.pop() else { return Ok(false) };
        let server_id: i64 = column(&row, "server_id")?;
        if server_id == self.database.server_id() {
            return Ok(false);
        }
        match Dialect::of(&reader) {
            Dialect::Sqlite => Ok(true),
            Dialect::Postgres => {
                // A lock of one number is listed by its two halves.
                let holders = "SELECT COUNT(*) AS holders FROM pg_locks
                    WHERE locktype = 'advisory' AND objsubid = 1
                        AND (CAST(classid AS BIGINT) << 32) + CAST(objid AS BIGINT) = $1
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
                let row = sqlx::query(holders).bind(server_id).fetch_one(&mut *reader).await?;
                Ok(column::<i64>(&row, "holders")? == 0)
            }
        }
    }

    /// Notes that this server gives a generation to its client again, so that no other does unless this one is killed too.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such generation.
    pub async fn give_again(&self, generation_id: &str) -> Result<()> {
        let (server_id, generation_id) = (self.database.server_id(), generation_id.to_owned());
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let update = "UPDATE generations SET server_id = $2 WHERE generation_id = $1";
                    let query = sqlx::query(update).bind(generation_id.as_str()).bind(server_id);
                    match query.execute(write.connection()).await?.rows_affected() {
                        0 => Err(StoreError::not_found("generation", &generation_id)),
                        _ => Ok(()),
                    }
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestStore, generation};
    use crate::{Store, StoreOptions};

    async fn another(store: &TestStore) -> Store {
        let another = Store::open(&store.database.url, StoreOptions::default()).await.unwrap();
        another.servers().start().await.unwrap();
        another
    }

    #[tokio::test]
    async fn the_calls_of_a_server_that_was_killed_are_distinguished_from_those_of_one_that_ended_in_order() {
        let first = TestStore::new().await;
        let attempted = first.start().await;
        first.servers().start().await.unwrap();
        first.servers().start().await.unwrap();
        first.recording().record(generation("a", &attempted, &[1, 2, 3], &[4])).await.unwrap();
        assert!(!first.servers().is_of_killed("a").await.unwrap(), "its own");
        // Without its row being removed.
        first.store.close().await;
        let second = another(&first).await;
        // PostgreSQL notices soon that its connection is closed.
        while !second.servers().is_of_killed("a").await.unwrap() {
            assert!(first.database.is_postgres());
            tokio::task::yield_now().await;
        }
        assert!(!second.servers().is_of_killed("no").await.unwrap());
        second.servers().give_again("a").await.unwrap();
        assert!(second.servers().give_again("no").await.is_err());
        assert!(!second.servers().is_of_killed("a").await.unwrap());
        second.recording().record(generation("b", &attempted, &[1, 2, 3, 4], &[5])).await.unwrap();
        second.servers().end().await.unwrap();
        second.close().await;
        let third = another(&first).await;
        for id in ["a", "b"] {
            assert!(!third.servers().is_of_killed(id).await.unwrap(), "{id}");
        }
        third.close().await;
    }

    #[tokio::test]
    async fn a_server_that_lives_next_to_this_one_was_not_killed() {
        let first = TestStore::new().await;
        if !first.database.is_postgres() {
            return;
        }
        let attempted = first.start().await;
        first.servers().start().await.unwrap();
        first.recording().record(generation("a", &attempted, &[1], &[2])).await.unwrap();
        let second = another(&first).await;
        // Its lock comes with its connection for messages.
        while second.servers().is_of_killed("a").await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert!(!second.servers().is_of_killed("a").await.unwrap());
        second.close().await;
    }
}
