//! What each server of the store samples from.

use fulgurite_types::ServedWeights;

use crate::database::sql::{Sql, checked_id, column, optional_plain, plain, to_integer, to_json, word};
use crate::weights::Weights;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

impl Weights {
    /// Records what a server samples a model from, now.
    pub async fn report_served(&self, served: ServedWeights) -> Result<()> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let version = served.version.map(|version| to_integer("version", version)).transpose()?;
                    sqlx::query(
                        "INSERT INTO served_weights (server_id, model, url, version, state, message, time)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)
                     ON CONFLICT (server_id, model) DO UPDATE SET url = excluded.url, version = excluded.version,
                         state = excluded.state, message = excluded.message, time = excluded.time",
                    )
                    .bind(checked_id("server_id", &served.server_id)?)
                    .bind(checked_id("model", &served.model)?)
                    .bind(plain("url", &served.url)?)
                    .bind(version)
                    .bind(to_json("state", &served.state)?.trim_matches('"'))
                    .bind(optional_plain("message", served.message.as_deref())?)
                    .bind(now())
                    .execute(write.connection())
                    .await?;
                    Ok(())
                })
            })
            .await
    }

    /// Forgets a server that has ended.
    pub async fn forget_server(&self, server_id: &str) -> Result<()> {
        let server_id = server_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut sql = Sql::new("DELETE FROM served_weights WHERE server_id = ");
                    sql.text(&server_id);
                    sql.execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Forgets earlier processes of a server, which listened where it listens now.
    pub async fn forget_earlier_servers(&self, url: &str, server_id: &str) -> Result<()> {
        let (url, server_id) = (url.to_owned(), server_id.to_owned());
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut sql = Sql::new("DELETE FROM served_weights WHERE url = ");
                    sql.text(&url).push(" AND server_id <> ").text(&server_id);
                    sql.execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Forgets all servers that last reported before a time.
    pub async fn forget_servers_before(&self, time: f64) -> Result<()> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut sql = Sql::new("DELETE FROM served_weights WHERE time < ");
                    sql.optional_real(Some(time));
                    sql.execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// What servers sample from, by model and server; of those that said so after `since`.
    pub async fn served(&self, since: f64) -> Result<Vec<ServedWeights>> {
        let mut sql = Sql::new("SELECT * FROM served_weights WHERE time > ");
        sql.optional_real(Some(since)).push(" ORDER BY model, url, server_id");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let served = |row| {
            let version: Option<i64> = column(row, "version")?;
            let corrupt = |error: std::num::TryFromIntError| StoreError::Corrupt {
                column: "version".to_owned(),
                message: error.to_string(),
            };
            Ok(ServedWeights {
                server_id: column(row, "server_id")?,
                url: column(row, "url")?,
                model: column(row, "model")?,
                version: version.map(u64::try_from).transpose().map_err(corrupt)?,
                state: word(row, "state")?,
                message: column(row, "message")?,
                time: column(row, "time")?,
            })
        };
        rows.iter().map(served).collect()
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{ServedWeights, ServingState};

    use crate::testing::TestStore;

    #[tokio::test]
    async fn each_server_is_known_by_what_it_reported_last() {
        let store = TestStore::new().await;
        let served = |server: &str, version: u64, state: ServingState| ServedWeights {
            server_id: server.into(),
            url: format!("http://{server}"),
            model: "m".into(),
            version: Some(version),
            state,
            message: None,
            time: 0.0,
        };
        store.weights().report_served(served("a", 1, ServingState::Loading)).await.unwrap();
        store.weights().report_served(served("b", 1, ServingState::Behind)).await.unwrap();
        store.weights().report_served(served("a", 2, ServingState::Serving)).await.unwrap();
        let known = store.weights().served(0.0).await.unwrap();
        let states: Vec<_> = known.iter().map(|one| (one.url.as_str(), one.version, one.state)).collect();
        assert_eq!(states, [("http://a", Some(2), ServingState::Serving), ("http://b", Some(1), ServingState::Behind)]);
        store.weights().forget_earlier_servers("http://a", "a").await.unwrap();
        assert_eq!(store.weights().served(0.0).await.unwrap().len(), 2);
        store.weights().forget_server("b").await.unwrap();
        assert_eq!(store.weights().served(0.0).await.unwrap().len(), 1);
        assert_eq!(store.weights().served(known[0].time).await.unwrap(), []);
        store.weights().forget_servers_before(known[0].time).await.unwrap();
        assert_eq!(store.weights().served(0.0).await.unwrap().len(), 1);
        store.weights().forget_servers_before(f64::MAX).await.unwrap();
        assert_eq!(store.weights().served(0.0).await.unwrap(), []);
    }
    #[tokio::test]
    async fn a_server_that_was_killed_is_forgotten_once_its_url_is_back() {
        let store = TestStore::new().await;
        for (server_id, url) in [("killed", "http://a"), ("started", "http://a"), ("other", "http://b")] {
            let served = ServedWeights {
                server_id: server_id.into(),
                url: url.into(),
                model: "m".into(),
                version: Some(1),
                state: ServingState::Serving,
                message: None,
                time: 0.0,
            };
            store.weights().report_served(served).await.unwrap();
        }
        store.weights().forget_earlier_servers("http://a", "started").await.unwrap();
        let known = store.weights().served(0.0).await.unwrap();
        let known: Vec<_> = known.iter().map(|served| served.server_id.as_str()).collect();
        assert_eq!(known, ["started", "other"]);
    }
}
