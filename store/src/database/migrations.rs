//! The migrations: files of SQL that are part of the program, and which of them a database has had.

use std::sync::LazyLock;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, SqlSafeStr};

use super::dialect::Dialect;
use super::sql::column;
use crate::{Result, StoreError};

/// The migrations of one dialect, by the names of their files.
///
/// Not sqlx's `migrate!`: its macros build SQLite, the drivers and TLS a second time for the compiler's own use.
macro_rules! migrations {
    ($dialect:literal, [$($name:literal),+ $(,)?]) => {
        Migrator::with_migrations(vec![$(migration(
            $name,
            include_str!(concat!("../../../migrations/", $dialect, "/", $name, ".sql")),
        )),+])
    };
}

static SQLITE: LazyLock<Migrator> = LazyLock::new(|| {
    migrations!(
        "sqlite",
        [
            "0001_rollouts_generations_runs",
            "0002_spans_as_they_are_given_back",
            "0003_conversations",
            "0004_gateway",
            "0005_indexes_for_deleting",
            "0006_secrets",
            "0007_model_weights",
            "0008_indexes_that_calls_need",
            "0009_pages_that_calls_write",
            "0010_graders",
            "0011_checksums",
            "0012_leases",
            "0013_teacher_logprobs",
            "0014_allowed_steps",
            "0015_newest_of_a_run",
            "0016_row_checksums",
            "0017_conversation_digests",
            "0018_published_weights",
            "0019_run_leases",
            "0020_base_of_an_adapter",
            "0021_servers",
        ]
    )
});

static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| {
    migrations!(
        "postgres",
        [
            "0001_rollouts_generations_runs",
            "0003_conversations",
            "0004_gateway",
            "0005_indexes_for_deleting",
            "0006_secrets",
            "0007_model_weights",
            "0008_indexes_that_calls_need",
            "0009_pages_that_calls_write",
            "0010_graders",
            "0011_checksums",
            "0012_leases",
            "0013_teacher_logprobs",
            "0014_allowed_steps",
            "0015_newest_of_a_run",
            "0016_row_checksums",
            "0017_conversation_digests",
            "0018_published_weights",
            "0019_run_leases",
            "0020_base_of_an_adapter",
            "0021_servers",
        ]
    )
});

/// A migration, whose file's name begins with its version: `0003_conversations` is version 3.
fn migration(name: &str, sql: &'static str) -> Migration {
    let (version, description) = name.split_once('_').unwrap_or((name, ""));
    // No version reads as 0, which the test below refuses.
    let version = version.parse().unwrap_or_default();
    Migration::new(version, description.replace('_', " ").into(), MigrationType::Simple, sql.into_sql_str(), false)
}

fn migrator(dialect: Dialect) -> &'static Migrator {
    match dialect {
        Dialect::Sqlite => &SQLITE,
        Dialect::Postgres => &POSTGRES,
    }
}

/// Applies the migrations that a database has not had yet. Several servers may try at once: one does, the others wait.
pub(crate) async fn migrate(connection: &mut AnyConnection) -> Result<()> {
    Ok(migrator(Dialect::of(connection)).run(connection).await?)
}

/// Migrations that change nothing of what readers read: those that make reading faster, and what writers alone look at.
const NOT_FOR_READERS: [i64; 2] = [15, 19];

/// Refuses a database that lacks a migration which readers need.
pub(crate) async fn require_migrated(connection: &mut AnyConnection) -> Result<()> {
    let rows = sqlx::query("SELECT version FROM _sqlx_migrations WHERE success").fetch_all(&mut *connection).await?;
    let applied = rows.iter().map(|row| column(row, "version")).collect::<Result<Vec<i64>>>()?;
    let migrator = migrator(Dialect::of(connection));
    let is_missed = |version: i64| !applied.contains(&version) && !NOT_FOR_READERS.contains(&version);
    match migrator.iter().find(|migration| is_missed(migration.version)) {
        None => Ok(()),
        Some(missing) => Err(StoreError::Outdated { migration: missing.version }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn every_file_of_the_migrations_is_in_the_program() {
        for (dialect, folder) in [(Dialect::Sqlite, "sqlite"), (Dialect::Postgres, "postgres")] {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(folder);
            let files = Migrator::new(directory.as_path()).await.unwrap();
            let described = |migrator: &Migrator| -> Vec<_> {
                let of = |m: &Migration| (m.version, m.description.clone(), m.checksum.clone(), m.no_tx);
                migrator.iter().map(of).collect()
            };
            assert_eq!(described(migrator(dialect)), described(&files), "{folder}");
        }
    }
}
