//! Whether rollouts and attempts are those that were recorded: each by itself, and all of a table together.

use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::check::findings::Check;
use crate::checksums::add;
use crate::database::sql::{Sql, column};
use crate::row_checksums::{AttemptColumns, RolloutColumns, heartbeat_checksum, rollout_weight};

/// A table whose rows have checksums and a total.
struct TotalledTable {
    name: &'static str,
    /// Law of a row, and law of all of them.
    laws: [&'static str; 2],
    id: fn(&AnyRow) -> Result<String>,
    /// The checksum of a row's columns, and whether those are that have one by themselves.
    checksum: fn(&AnyRow) -> Result<(i64, bool)>,
    /// What a row with this checksum adds to the total.
    weight: fn(&AnyRow, i64) -> Result<i64>,
}

const TABLES: [TotalledTable; 2] = [
    TotalledTable {
        name: "rollouts",
        laws: ["rollout_checksum", "all_rollouts"],
        id: |row| column(row, "rollout_id"),
        checksum: |row| Ok((RolloutColumns::from_row(row)?.checksum(), true)),
        weight: |row, checksum| Ok(rollout_weight(checksum, column(row, "position")?, column(row, "queue_position")?)),
    },
    TotalledTable {
        name: "attempts",
        laws: ["attempt_checksum", "all_attempts"],
        id: attempt_id,
        checksum: |row| Ok((AttemptColumns::from_row(row)?.checksum(), has_its_heartbeat_and_counts(row)?)),
        weight: |_, checksum| Ok(checksum),
    },
];

/// The number of rows and the sum of their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    rows: i64,
    digest: i64,
}

/// What was found out about a table.
#[derive(Default)]
struct Findings {
    /// `None` if it is not there.
    recorded: Option<Total>,
    found: Total,
    changed: Vec<String>,
    unreadable: Vec<(String, String)>,
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
        for (id, error) in findings.unreadable {
            self.violation("readable", &format!("{} {id}", table.name), error);
        }
        for id in findings.changed {
            self.violation(of_row, &id, "it is not what was recorded: its checksum is another one");
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
    async fn findings(&self, connection: &mut AnyConnection) -> Result<Findings> {
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
        let stored: Option<i64> = column(row, "checksum")?;
        findings.found.digest = add(findings.found.digest, (self.weight)(row, stored.unwrap_or_default())?);
        let Some(stored) = stored else {
            findings.without_checksum += 1;
            return Ok(());
        };
        match (self.checksum)(row) {
            Ok((checksum, true)) if checksum == stored => {}
            Ok(_) => findings.changed.push((self.id)(row)?),
            Err(error) => findings.unreadable.push(((self.id)(row)?, error.to_string())),
        }
        Ok(())
    }
}

fn attempt_id(row: &AnyRow) -> Result<String> {
    Ok(format!("{}/{}", column::<&str>(row, "rollout_id")?, column::<&str>(row, "attempt_id")?))
}

/// The counts themselves are held against the rows that they count.
fn has_its_heartbeat_and_counts(row: &AnyRow) -> Result<bool> {
    let (rollout_id, attempt_id): (&str, &str) = (column(row, "rollout_id")?, column(row, "attempt_id")?);
    let heartbeat = column::<Option<f64>>(row, "last_heartbeat_time")?;
    let heartbeat = heartbeat.map(|time| heartbeat_checksum(rollout_id, attempt_id, time));
    let mut has_counts = true;
    for count in ["span_count", "generation_count", "digest"] {
        has_counts &= column::<Option<i64>>(row, count)?.is_some();
    }
    Ok(has_counts && heartbeat == column::<Option<i64>>(row, "heartbeat_checksum")?)
}
