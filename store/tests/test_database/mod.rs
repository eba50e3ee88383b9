//! An empty database for one test.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use tempfile::TempDir;
use uuid::Uuid;

/// Names the PostgreSQL server that tests use in place of SQLite: a URL whose database is there.
pub const SERVER: &str = "FULGURITE_TEST_POSTGRES";

/// An empty database: on the PostgreSQL server that the environment names, or else a file in a directory of its own.
/// It goes away with this.
pub struct TestDatabase {
    /// As a store is opened by.
    pub url: String,
    _holder: Holder,
}

#[allow(dead_code)]
enum Holder {
    Directory(TempDir),
    Server(OnServer),
}

struct OnServer {
    server: String,
    name: String,
}

impl TestDatabase {
    /// A database where the environment says.
    pub async fn new() -> Self {
        match std::env::var(SERVER) {
            Ok(server) => Self::on_server(server).await,
            Err(_) => Self::sqlite(),
        }
    }

    /// A file, wherever other tests have their databases.
    pub fn sqlite() -> Self {
        let directory = TempDir::new().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        Self { url, _holder: Holder::Directory(directory) }
    }

    async fn on_server(server: String) -> Self {
        let name = format!("test_{}", Uuid::now_v7().simple());
        execute(&server, format!("CREATE DATABASE {name}")).await;
        // `scheme://authority/database?options`
        let (address, options) = server.split_once('?').unwrap_or((&server, ""));
        let (authority, _) = address.rsplit_once('/').unwrap();
        let url = format!("{authority}/{name}?{options}");
        Self { url, _holder: Holder::Server(OnServer { server, name }) }
    }

    /// Whether this is a PostgreSQL database.
    #[allow(dead_code)]
    pub fn is_postgres(&self) -> bool {
        matches!(self._holder, Holder::Server(_))
    }
}

impl Drop for OnServer {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        // The test's own runtime may be about to end, and does not wait.
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(execute(&server, drop));
        });
        // A database that stays does no harm.
        let _ = thread.join();
    }
}

async fn execute(server: &str, sql: String) {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
