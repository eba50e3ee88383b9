//! Whether rollouts and attempts are those that were recorded: each by itself, and all of a table together.

use std::fmt;

use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::checksums::add;
use crate::database::sql::{Sql, column};
use crate::housekeeping::check::findings::Check;
use crate::housekeeping::check::rows::{read_attempt, read_rollout};
use crate::row_checksums::{AttemptColumns, RolloutColumns, heartbeat_checksum, rollout_weight};

/// A table whose rows have checksums and a total.
pub(super) struct TotalledTable {
    pub name: &'static str,
    /// Law of a row, and law of all of them.
    laws: [&'static str; 2],
    key: fn(&AnyRow) -> Result<RowKey>,
    /// The checksums in the row; `None` if it was recorded before there were any.
    stored: fn(&AnyRow) -> Result<Option<Checksums>>,
    /// The checksums of the row's columns.
    computed: fn(&AnyRow) -> Result<Checksums>,
    /// Whether the row has the counts that a row with a checksum has.
    has_counts: fn(&AnyRow) -> Result<bool>,
    /// What is wrong with the row by itself.
    read: fn(&AnyRow) -> std::result::Result<(), String>,
    /// What a row with this checksum adds to the total.
    weight: fn(&AnyRow, i64) -> Result<i64>,
}

pub(super) const TABLES: [TotalledTable; 2] = [
    TotalledTable {
        name: "rollouts",
        laws: ["rollout_checksum", "all_rollouts"],
        key: |row| Ok(RowKey { rollout_id: column(row, "rollout_id")?, attempt_id: None }),
        stored: |row| Ok(column::<Option<i64>>(row, "checksum")?.map(|row| Checksums { row, heartbeat: None })),
        computed: |row| Ok(Checksums { row: RolloutColumns::from_row(row)?.checksum(), heartbeat: None }),
        has_counts: |_| Ok(true),
        read: read_rollout,
        weight: |row, checksum| Ok(rollout_weight(checksum, column(row, "position")?, column(row, "queue_position")?)),
    },
    TotalledTable {
        name: "attempts",
        laws: ["attempt_checksum", "all_attempts"],
        key: |row| Ok(RowKey { rollout_id: column(row, "rollout_id")?, attempt_id: column(row, "attempt_id")? }),
        stored: |row| {
            let heartbeat = column(row, "heartbeat_checksum")?;
            Ok(column::<Option<i64>>(row, "checksum")?.map(|row| Checksums { row, heartbeat }))
        },
        computed: |row| {
            Ok(Checksums { row: AttemptColumns::from_row(row)?.checksum(), heartbeat: computed_heartbeat(row)? })
        },
        has_counts,
        read: read_attempt,
        weight: |_, checksum| Ok(checksum),
    },
];

/// Which row of a totalled table.
#[derive(Debug)]
pub(super) struct RowKey {
    pub rollout_id: String,
    /// Of an attempt.
    pub attempt_id: Option<String>,
}

impl fmt::Display for RowKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.rollout_id)?;
        self.attempt_id.iter().try_for_each(|attempt_id| write!(formatter, "/{attempt_id}"))
    }
}

/// The checksums of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksums {
    pub row: i64,
    /// Of an attempt that has had a heartbeat.
    pub heartbeat: Option<i64>,
}

/// A row that is not what was recorded.
#[derive(Debug)]
pub(super) struct ChangedRow {
    pub key: RowKey,
    /// Those of the row as it is now; `None` if it cannot be read or lacks its counts.
    pub computed: Option<Checksums>,
}

/// The number of rows and the sum of their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub rows: i64,
    pub digest: i64,
}

/// What was found out about a table.
#[derive(Default)]
pub(super) struct Findings {
    /// `None` if it is not there.
    pub recorded: Option<Total>,
    pub found: Total,
    /// The digest once changed rows have the checksums of what they are now.
    pub renewed_digest: i64,
    pub changed: Vec<ChangedRow>,
    pub unreadable: Vec<(RowKey, String)>,
    without_checksum: u64,
}

impl Check<'_> {
    /// Whether the rows of rollouts and attempts are those that were recorded.
    pub(super) async fn row_totals(&mut self, connection: &mut AnyConnection) -> Result<()> {
        for table in TABLES {
            let findings = table.findings(connection).await;
            if let Some(findings) = self.unless_damaged("readable", table.name, findings)? {
                self.report_total(&table, findings);
            }
        }
        Ok(())
    }

    fn report_total(&mut self, table: &TotalledTable, findings: Findings) {
        let [of_row, of_all] = table.laws;
        for (key, error) in findings.unreadable {
            self.violation("readable", &format!("{} {key}", table.name), error);
        }
        for row in findings.changed {
            self.violation(of_row, &row.key.to_string(), "it is not what was recorded: its checksum is another one");
        }
        self.without_checksum(table.name, findings.without_checksum);
        let Some(recorded) = findings.recorded else {
            return self.violation(of_all, table.name, "their number and their digest are missing");
        };
        let found = findings.found;
        if found.rows != recorded.rows {
            let message = format!("rows that were recorded: {}, that are there: {}", recorded.rows, found.rows);
            self.violation(of_all, table.name, message);
        } else if found.digest != recorded.digest {
            let message = "they are not those that were recorded: a row has another checksum, another place or is an \
                           earlier version of itself";
            self.violation(of_all, table.name, message);
        }
    }
}

impl TotalledTable {
    /// Looks at every row. One statement sees one state of the database even if others write meanwhile.
    pub(super) async fn findings(&self, connection: &mut AnyConnection) -> Result<Findings> {
        let mut sql = Sql::new(
            "SELECT t.row_count AS total_rows, t.digest AS total_digest, r.* FROM (SELECT 1 AS one) AS one
             LEFT JOIN row_totals t ON t.table_name = ",
        );
        sql.text(self.name).push(" LEFT JOIN ").push(self.name).push(" r ON 1 = 1");
        let mut findings = Findings::default();
        sql.each(connection, |row| {
            if let (Some(rows), Some(digest)) = (column(row, "total_rows")?, column(row, "total_digest")?) {
                findings.recorded = Some(Total { rows, digest });
            }
            if column::<Option<&str>>(row, "rollout_id")?.is_some() {
                self.look_at(row, &mut findings)?;
            }
            Ok(())
        })
        .await?;
        Ok(findings)
    }

    fn look_at(&self, row: &AnyRow, findings: &mut Findings) -> Result<()> {
        findings.found.rows += 1;
        let stored = (self.stored)(row)?;
        let weight = (self.weight)(row, stored.map_or(0, |stored| stored.row))?;
        findings.found.digest = add(findings.found.digest, weight);
        let mut renewed_weight = weight;
        match stored {
            None => findings.without_checksum += 1,
            Some(stored) => match (self.computed)(row) {
                Err(error) => findings.unreadable.push(((self.key)(row)?, error.to_string())),
                Ok(computed) => {
                    let has_counts = (self.has_counts)(row)?;
                    if computed != stored || !has_counts {
                        let computed = (has_counts && (self.read)(row).is_ok()).then_some(computed);
                        findings.changed.push(ChangedRow { key: (self.key)(row)?, computed });
                        if let Some(computed) = computed {
                            renewed_weight = (self.weight)(row, computed.row)?;
                        }
                    }
                }
            },
        }
        findings.renewed_digest = add(findings.renewed_digest, renewed_weight);
        Ok(())
    }
}

fn computed_heartbeat(row: &AnyRow) -> Result<Option<i64>> {
    let (rollout_id, attempt_id): (&str, &str) = (column(row, "rollout_id")?, column(row, "attempt_id")?);
    let time = column::<Option<f64>>(row, "last_heartbeat_time")?;
    Ok(time.map(|time| heartbeat_checksum(rollout_id, attempt_id, time)))
}

/// The counts themselves are held against the rows that they count.
fn has_counts(row: &AnyRow) -> Result<bool> {
    let mut has_counts = true;
    for count in ["span_count", "generation_count", "digest"] {
        has_counts &= column::<Option<i64>>(row, count)?.is_some();
    }
    Ok(has_counts)
}
