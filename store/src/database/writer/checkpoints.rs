//! Copying SQLite's log into the database file, beside the writer and not while calls wait for it.

use sqlx::{AnyConnection, Connection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Result;
use crate::database::location::Connector;

/// Commits between two checkpoints while no write waits for the writer. They write two or three dozen pages, which are
/// mostly copied before the next of a thousand calls a second commits: it would wait for the same disk, and the longer, the
/// more there is to copy.
const COMMITS: u32 = 8;
/// Commits between two checkpoints while writes are always waiting. The fewer checkpoints, the less often a page is copied
/// that changes with every call.
const COMMITS_UNDER_LOAD: u32 = 32;

/// A connection that copies what the writer has committed, while the writer continues; if nothing was committed by the end
/// of a checkpoint, the next commit restarts the log. Otherwise the log grows until the writer makes a checkpoint of its
/// own, which finds little to copy.
pub(crate) struct Checkpoints {
    commits: u32,
    requests: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Checkpoints {
    /// Waits for commits.
    #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
    pub(crate) fn start(connector: Connector) -> Self {
        // One may wait while another is made; more of them would find nothing new.
        let (requests, receiver) = mpsc::channel(1);
        Self { commits: 0, requests, task: tokio::spawn(run(connector, receiver)) }
    }

    /// Counts a commit, given whether writes wait for the next one, and has the log copied after some of them.
    pub(crate) fn committed(&mut self, somebody_waits: bool) {
        self.commits += 1;
        let enough = if somebody_waits { COMMITS_UNDER_LOAD } else { COMMITS };
        if self.commits >= enough && self.requests.try_send(()).is_ok() {
            self.commits = 0;
        }
    }

    /// Ends, so that the writer's connection is the last one.
    pub(crate) async fn close(self) {
        drop(self.requests);
        // With its runtime it is cancelled, and nothing was left to be done.
        if let Err(error) = self.task.await
            && !error.is_cancelled()
        {
            tracing::warn!(%error, "the checkpoints did not end");
        }
    }
}

async fn run(connector: Connector, mut requests: mpsc::Receiver<()>) {
    let mut connection = None;
    while requests.recv().await.is_some() {
        if let Err(error) = checkpoint(&connector, &mut connection).await {
            // The writer's own checkpoint does what is left.
            tracing::warn!(%error, "a checkpoint failed");
            connection = None;
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the connection for checkpoints did not close");
    }
}

async fn checkpoint(connector: &Connector, connection: &mut Option<AnyConnection>) -> Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connector.connect().await?),
    };
    sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use super::*;
    use crate::database::location::{Access, Location};

    #[tokio::test]
    async fn the_log_is_copied_while_the_writers_connection_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let location = Location::parse(path.to_str().unwrap()).unwrap();
        let preparation = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0".to_owned();
        let connector = location.connector(Access::Create, preparation).unwrap();
        let mut writer = connector.connect().await.unwrap();
        let bytes = || std::fs::metadata(&path).unwrap().len();
        let mut checkpoints = Checkpoints::start(connector);
        sqlx::raw_sql("CREATE TABLE t (b BLOB); INSERT INTO t VALUES (zeroblob(1000000))")
            .execute(&mut writer)
            .await
            .unwrap();
        (1..COMMITS).for_each(|_| checkpoints.committed(false));
        assert!(checkpoints.commits == COMMITS - 1 && bytes() < 1_000_000, "it is not time yet");
        checkpoints.committed(false);
        assert_eq!(checkpoints.commits, 0);
        checkpoints.close().await;
        assert!(bytes() >= 1_000_000, "what was asked for is done before the end");
        writer.close().await.unwrap();
    }

    #[tokio::test]
    async fn the_log_is_copied_less_often_while_somebody_waits() {
        let (requests, mut receiver) = mpsc::channel(1);
        let mut checkpoints = Checkpoints { commits: 0, requests, task: tokio::spawn(async {}) };
        let mut commits_until_due = |somebody_waits: &dyn Fn(u32) -> bool| {
            let mut commits = 0;
            while receiver.try_recv().is_err() {
                commits += 1;
                checkpoints.committed(somebody_waits(commits));
            }
            commits
        };
        assert_eq!(commits_until_due(&|_| false), COMMITS);
        assert_eq!(commits_until_due(&|_| true), COMMITS_UNDER_LOAD);
        assert_eq!(commits_until_due(&|commits| commits < 20), 20, "as soon as nobody waits");
    }
}
