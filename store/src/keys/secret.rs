//! The secret of issued keys: created once, by the first server on the database that needs it.

use crate::database::sql::column;
use crate::keys::issued_keys::{IssuedKeys, SECRET_BYTES};
use crate::{Result, Store, StoreError};

/// What the secret is called among others.
const NAME: &str = "issued_keys";

impl Store {
    /// The keys that servers on this database issue. Their secret is created once, on first use, and stays.
    pub async fn issued_keys(&self) -> Result<&IssuedKeys> {
        self.known_issued_keys().get_or_try_init(|| secret_of(self)).await
    }
}

/// The keys under the secret that a store holds, or holds from now on.
async fn secret_of(store: &Store) -> Result<IssuedKeys> {
    let mut fresh = [0; SECRET_BYTES];
    getrandom::fill(&mut fresh)
        .map_err(|error| StoreError::Unavailable { message: format!("the system gives no random bytes: {error}") })?;
    let secret = store
        .write(move |write| {
            Box::pin(async move {
                let select = "SELECT secret FROM secrets WHERE name = $1";
                // Looked for first: a query from which the secret is hidden does not block its readers.
                if let Some(row) = sqlx::query(select).bind(NAME).fetch_optional(write.connection()).await? {
                    return column::<Vec<u8>>(&row, "secret");
                }
                let insert = "INSERT INTO secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
                sqlx::query(insert).bind(NAME).bind(fresh.to_vec()).execute(write.connection()).await?;
                let row = sqlx::query(select).bind(NAME).fetch_one(write.connection()).await?;
                column::<Vec<u8>>(&row, "secret")
            })
        })
        .await?;
    let secret = secret.try_into().map_err(|_| StoreError::Corrupt {
        column: "secrets.secret".to_owned(),
        message: format!("it must have {SECRET_BYTES} bytes"),
    })?;
    Ok(IssuedKeys::new(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use crate::keys::holder::{KeyHolder, KeyRefused};
    use crate::testing::TestStore;

    #[tokio::test]
    async fn all_servers_on_a_database_know_each_others_keys_and_keep_them_over_a_restart() {
        let store = TestStore::new().await;
        let (one, two) = tokio::join!(secret_of(&store), secret_of(&store));
        let key = one.unwrap().attempt_key("ro-1", "at-1");
        let holder = KeyHolder::Attempt { rollout_id: "ro-1".into(), attempt_id: "at-1".into() };
        assert_eq!(two.unwrap().holder(&key, 0), Ok(holder.clone()));
        store.close().await;
        let again = Store::open(&store.database.url, StoreOptions::default()).await.unwrap();
        assert_eq!(again.issued_keys().await.unwrap().holder(&key, 0), Ok(holder));
        let elsewhere = TestStore::new().await;
        assert_eq!(elsewhere.issued_keys().await.unwrap().holder(&key, 0), Err(KeyRefused::Unknown));
    }
}
