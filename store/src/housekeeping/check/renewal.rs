//! Writes the checksums of rollouts and attempts anew, for a store that an earlier version changed without them.

use std::time::Duration;

use serde::Serialize;
use sqlx::{AnyConnection, Connection};

use crate::database::dialect::Dialect;
use crate::database::location::{Access, Connector, Location};
use crate::database::migrations::require_migrated;
use crate::database::options::{BUSY_TIMEOUT, Synchronous};
use crate::database::sql::Sql;
use crate::housekeeping::Housekeeping;
use crate::housekeeping::check::row_totals::{ChangedRow, Findings, TABLES, Total, TotalledTable};
use crate::{Result, StoreError};

/// Takes the file for this connection alone, which fails while any other connection has it open.
const ALONE: &str = "PRAGMA busy_timeout = 1000; PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL";

/// How often, and how far apart, others on PostgreSQL are counted: a connection that has been closed is there a little longer.
const COUNTS: usize = 20;
const BETWEEN_COUNTS: Duration = Duration::from_millis(50);

/// Whether checksums are renewed, or only what would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalMode {
    /// Looks only; servers may have the store open.
    Plan,
    /// Renews, unless anybody else has the store open.
    Write,
}

/// What a renewal takes for granted in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableRenewal {
    /// Which table.
    pub table: &'static str,
    /// Rows with a checksum that is not theirs.
    pub changed_rows: u64,
    /// How many rows were recorded, if that is known.
    pub rows_recorded: Option<i64>,
    /// How many rows there are.
    pub rows: i64,
    /// Whether the digest of all rows changes, as it does with any of the above.
    pub new_digest: bool,
    /// Rows that cannot be read or lack their counts. They stay as they are, for `Housekeeping::check` to find.
    pub rows_left: u64,
}

impl TableRenewal {
    fn of(table: &TotalledTable, findings: &Findings) -> Self {
        let renewable = findings.changed.iter().filter(|row| row.computed.is_some()).count();
        Self {
            table: table.name,
            changed_rows: renewable as u64,
            rows_recorded: findings.recorded.map(|total| total.rows),
            rows: findings.found.rows,
            new_digest: findings.recorded.is_none_or(|total| total.digest != findings.renewed_digest),
            rows_left: (findings.changed.len() - renewable + findings.unreadable.len()) as u64,
        }
    }

    /// Whether there is nothing to renew.
    pub fn is_needless(&self) -> bool {
        self.changed_rows == 0 && self.rows_recorded == Some(self.rows) && !self.new_digest
    }
}

impl Housekeeping {
    /// Takes rollouts and attempts as they are for what was recorded: writes their checksums, their numbers and the digests
    /// of all of them anew. Rows without a checksum stay without; generations, spans and the counts of attempts keep theirs.
    ///
    /// # Errors
    /// If anybody else has the database open, where something would be written.
    pub async fn renew_row_checksums(url: &str, mode: RenewalMode) -> Result<Vec<TableRenewal>> {
        let location = Location::parse(url)?;
        if location.is_missing() {
            return Err(StoreError::not_found("store", url));
        }
        let dialect = location.dialect();
        let (access, preparation) = match (mode, dialect) {
            (RenewalMode::Plan, _) => (Access::Read, dialect.prepare_reading(BUSY_TIMEOUT)),
            (RenewalMode::Write, Dialect::Sqlite) => (Access::Change, ALONE.to_owned()),
            (RenewalMode::Write, Dialect::Postgres) => {
                (Access::Change, dialect.prepare_writing(Synchronous::Full, BUSY_TIMEOUT))
            }
        };
        let connector = location.connector(access, preparation)?;
        match renewals(&connector, mode).await {
            Err(StoreError::Busy { .. }) if mode == RenewalMode::Write => Err(StoreError::Busy {
                message: "it is open elsewhere; stop every server and every query on it first".to_owned(),
            }),
            renewals => renewals,
        }
    }
}

async fn renewals(connector: &Connector, mode: RenewalMode) -> Result<Vec<TableRenewal>> {
    let mut connection = connector.connect().await?;
    let renewals = match mode {
        RenewalMode::Plan => plan(&mut connection).await,
        RenewalMode::Write => write(&mut connection).await,
    };
    // What a transaction that failed has written goes with its connection.
    let closed = connection.close().await;
    let renewals = renewals?;
    closed?;
    Ok(renewals)
}

async fn plan(connection: &mut AnyConnection) -> Result<Vec<TableRenewal>> {
    require_migrated(connection).await?;
    let mut renewals = Vec::new();
    for table in TABLES {
        renewals.push(TableRenewal::of(&table, &table.findings(connection).await?));
    }
    Ok(renewals)
}

async fn write(connection: &mut AnyConnection) -> Result<Vec<TableRenewal>> {
    let begin = match Dialect::of(connection) {
        Dialect::Sqlite => "BEGIN EXCLUSIVE",
        Dialect::Postgres => {
            require_alone(connection).await?;
            Dialect::Postgres.begin()
        }
    };
    sqlx::raw_sql(begin).execute(&mut *connection).await?;
    require_migrated(connection).await?;
    let mut renewals = Vec::new();
    for table in TABLES {
        let findings = table.findings(connection).await?;
        for row in &findings.changed {
            renew(&table, row, connection).await?;
        }
        write_total(&table, &findings, connection).await?;
        renewals.push(TableRenewal::of(&table, &findings));
    }
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(renewals)
}

/// Refuses a PostgreSQL database to which the same user is connected elsewhere.
async fn require_alone(connection: &mut AnyConnection) -> Result<()> {
    let others = Sql::new(
        "SELECT COUNT(*) FROM pg_stat_activity
         WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()",
    );
    let mut connected = 0;
    for _ in 0..COUNTS {
        connected = others.total(connection).await?;
        if connected == 0 {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN_COUNTS).await;
    }
    Err(StoreError::Busy { message: format!("{connected} other connections") })
}

async fn renew(table: &TotalledTable, row: &ChangedRow, connection: &mut AnyConnection) -> Result<()> {
    let Some(checksums) = row.computed else { return Ok(()) };
    let mut sql = Sql::new("UPDATE ");
    sql.push(table.name).push(" SET checksum = ").integer(checksums.row);
    if row.key.attempt_id.is_some() {
        sql.push(", heartbeat_checksum = ");
        match checksums.heartbeat {
            Some(heartbeat) => sql.integer(heartbeat),
            None => sql.push("NULL"),
        };
    }
    sql.push(" WHERE rollout_id = ").text(&row.key.rollout_id);
    if let Some(attempt_id) = &row.key.attempt_id {
        sql.push(" AND attempt_id = ").text(attempt_id);
    }
    sql.execute(connection).await?;
    Ok(())
}

/// Sets the total itself: PostgreSQL's triggers have followed the renewed rows from a total that was wrong.
async fn write_total(table: &TotalledTable, findings: &Findings, connection: &mut AnyConnection) -> Result<()> {
    let total = Total { rows: findings.found.rows, digest: findings.renewed_digest };
    let mut sql = Sql::new("INSERT INTO row_totals (table_name, row_count, digest) VALUES (");
    sql.text(table.name).push(", ").integer(total.rows).push(", ").integer(total.digest);
    sql.push(") ON CONFLICT (table_name) DO UPDATE SET row_count = excluded.row_count, digest = excluded.digest");
    sql.execute(connection).await?;
    Ok(())
}
