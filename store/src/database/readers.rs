//! Connections for reading.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Connection};
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::database::location::{Connector, PATIENCE};
use crate::{Result, StoreError};

/// Connections that read at the same time.
const READERS: u32 = 4;

/// Where connections for reading come from.
pub(crate) enum Readers {
    File(FileReaders),
    /// A server may go away: connections are tested and reconnected.
    Server(AnyPool),
}

/// Connections to a file, which never goes away, so that idle connections need no test.
pub(crate) struct FileReaders {
    connector: Connector,
    /// Made as needed.
    connections: Vec<Arc<Mutex<Option<AnyConnection>>>>,
    /// One for each of the connections.
    permits: Arc<Semaphore>,
}

/// A connection for reading, until it is dropped.
pub(crate) enum Reader {
    Kept {
        connection: OwnedMappedMutexGuard<Option<AnyConnection>, AnyConnection>,
        _permit: OwnedSemaphorePermit,
    },
    /// It is never shared, before or after.
    Own {
        connection: AnyConnection,
        _permit: OwnedSemaphorePermit,
    },
    OfServer(PoolConnection<Any>),
}

impl Deref for Reader {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Self::Kept { connection, .. } => connection,
            Self::Own { connection, .. } => connection,
            Self::OfServer(connection) => connection,
        }
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Self::Kept { connection, .. } => connection,
            Self::Own { connection, .. } => connection,
            Self::OfServer(connection) => connection,
        }
    }
}

impl Readers {
    /// Connections to a file.
    pub(crate) fn of_file(connector: Connector) -> Self {
        Self::File(FileReaders {
            connector,
            connections: (0..READERS).map(|_| Arc::default()).collect(),
            permits: Arc::new(Semaphore::new(READERS as usize)),
        })
    }

    /// Connections to a server, the first of which is made at once.
    pub(crate) async fn of_server(connector: &Connector) -> Result<Self> {
        Ok(Self::Server(connector.pool(READERS).await?))
    }

    /// A connection, which others use before and after.
    pub(crate) async fn acquire(&self) -> Result<Reader> {
        match self {
            Self::File(readers) => readers.kept().await,
            Self::Server(pool) => Ok(Reader::OfServer(pool.acquire().await?)),
        }
    }

    /// A connection of its own, for a query that may change the connection's settings.
    pub(crate) async fn own(&self) -> Result<Reader> {
        match self {
            Self::File(readers) => {
                let _permit = readers.permit().await?;
                Ok(Reader::Own { connection: readers.connector.connect().await?, _permit })
            }
            Self::Server(pool) => {
                let mut connection = pool.acquire().await?;
                connection.close_on_drop();
                Ok(Reader::OfServer(connection))
            }
        }
    }

    /// Waits for running reads and closes all connections; later reads fail.
    pub(crate) async fn close(&self) {
        match self {
            Self::File(readers) => readers.close().await,
            Self::Server(pool) => pool.close().await,
        }
    }
}

impl FileReaders {
    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        match tokio::time::timeout(PATIENCE, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| StoreError::Closed),
            Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
        }
    }

    async fn kept(&self) -> Result<Reader> {
        let _permit = self.permit().await?;
        let free = self.connections.iter().find_map(|connection| Arc::clone(connection).try_lock_owned().ok());
        // There are as many as permits.
        let mut connection = free.ok_or(StoreError::Closed)?;
        if connection.is_none() {
            *connection = Some(self.connector.connect().await?);
        }
        let connection = OwnedMutexGuard::try_map(connection, Option::as_mut).map_err(|_| StoreError::Closed)?;
        Ok(Reader::Kept { connection, _permit })
    }

    async fn close(&self) {
        // Fails if they are closed.
        let all_are_back = self.permits.acquire_many(READERS).await;
        self.permits.close();
        drop(all_are_back);
        for connection in &self.connections {
            if let Some(connection) = connection.lock().await.take()
                && let Err(error) = connection.close().await
            {
                tracing::warn!(%error, "a connection for reading did not close");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestStore;
    use crate::{Store, StoreOptions};

    #[tokio::test]
    async fn no_more_read_at_a_time_than_there_are_connections_and_closing_waits_for_them() {
        let TestStore { store, database } = TestStore::new().await;
        let mut readers = Vec::new();
        for _ in 0..READERS {
            readers.push(store.database().reader().await.unwrap());
        }
        let mut next = Box::pin(store.database().reader());
        assert!(futures::poll!(&mut next).is_pending());
        readers.pop();
        let own = next.await.unwrap();
        drop((own, readers));
        drop(store.database().own_reader().await.unwrap());
        let last = store.database().reader().await.unwrap();
        let mut closing = Box::pin(store.close());
        assert!(futures::poll!(&mut closing).is_pending());
        drop(last);
        closing.await;
        assert!(matches!(store.database().reader().await, Err(StoreError::Closed)));
        drop(Store::open(&database.url, StoreOptions::default()).await.unwrap());
    }
}
