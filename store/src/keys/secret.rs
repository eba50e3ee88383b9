//! The secret of issued keys: created once, by the first server on the database that needs it.

use crate::database::sql::column;
use crate::database::writer::Write;
use crate::keys::issued_keys::{IssuedKeys, SECRET_BYTES};
use crate::{Result, StoreError};

/// What the secret is called among others.
const NAME: &str = "issued_keys";

/// A secret that no database has yet.
///
/// # Errors
/// If the system gives no random bytes.
pub(crate) fn fresh_secret() -> Result<[u8; SECRET_BYTES]> {
    let mut fresh = [0; SECRET_BYTES];
    getrandom::fill(&mut fresh)
        .map_err(|error| StoreError::Unavailable { message: format!("the system gives no random bytes: {error}") })?;
    Ok(fresh)
}

/// The keys under the secret that a database holds, which is this one from now on if it has none.
pub(crate) async fn keep_secret(write: &mut Write, fresh: [u8; SECRET_BYTES]) -> Result<IssuedKeys> {
    let select = "SELECT secret FROM secrets WHERE name = $1";
    let connection = write.connection();
    // Looked for first: a query from which the secret is hidden does not block its readers.
    let row = match sqlx::query(select).bind(NAME).fetch_optional(&mut *connection).await? {
        Some(row) => row,
        None => {
            let insert = "INSERT INTO secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
            sqlx::query(insert).bind(NAME).bind(fresh.to_vec()).execute(&mut *connection).await?;
            sqlx::query(select).bind(NAME).fetch_one(connection).await?
        }
    };
    let secret = column::<Vec<u8>>(&row, "secret")?.try_into().map_err(|_| StoreError::Corrupt {
        column: "secrets.secret".to_owned(),
        message: format!("it must have {SECRET_BYTES} bytes"),
    })?;
    Ok(IssuedKeys::new(secret))
}

#[cfg(test)]
mod tests {
    use crate::keys::holder::{KeyHolder, KeyRefused};
    use crate::testing::TestStore;
    use crate::{Store, StoreOptions};

    #[tokio::test]
    async fn all_servers_on_a_database_know_each_others_keys_and_keep_them_over_a_restart() {
        let store = TestStore::new().await;
        let other = Store::open(&store.database.url, StoreOptions::default()).await.unwrap();
        let (one, two) = tokio::join!(store.issued_keys(), other.issued_keys());
        let key = one.unwrap().attempt_key("ro-1", "at-1");
        let holder = KeyHolder::Attempt { rollout_id: "ro-1".into(), attempt_id: "at-1".into() };
        assert_eq!(two.unwrap().holder(&key, 0), Ok(holder.clone()));
        other.close().await;
        store.close().await;
        let again = Store::open(&store.database.url, StoreOptions::default()).await.unwrap();
        assert_eq!(again.issued_keys().await.unwrap().holder(&key, 0), Ok(holder));
        let elsewhere = TestStore::new().await;
        assert_eq!(elsewhere.issued_keys().await.unwrap().holder(&key, 0), Err(KeyRefused::Unknown));
    }
}
