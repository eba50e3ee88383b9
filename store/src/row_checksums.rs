//! Checksums of rows that change while they live: one for each rollout and each attempt.
//!
//! A checksum is the sum of digests of columns. Whoever changes a column adds the difference, so that a row which has
//! changed by another way keeps its wrong sum. `row_totals` has the number of rows of a table and the sum of their weights,
//! and shows that a row is missing, came by another way, or is an earlier version of itself.

use fulgurite_types::{AttemptStatus, RolloutStatus};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::checksums::{Fields, MASK, add};
use crate::database::sql::{Sql, column};

/// What an attempt's place among those of its rollout counts, which SQL adds.
pub(crate) const SEQUENCE_WEIGHT: i64 = 805_306_457;

/// What one change of an attempt by a report counts, which SQL adds.
pub(crate) const REVISION_WEIGHT: i64 = 402_653_189;

/// Half of a checksum, as it is multiplied with a row's place.
const HALF: i64 = (1 << 30) - 1;

fn digest(name: &str, values: &[Option<&[u8]>]) -> i64 {
    let mut fields = Fields::new();
    fields.push(Some(name.as_bytes()));
    values.iter().for_each(|value| _ = fields.push(*value));
    fields.digest()
}

/// The digest of a column that may be null, which counts nothing then.
fn optional_digest(name: &str, value: Option<&[u8]>) -> i64 {
    value.map_or(0, |value| digest(name, &[Some(value)]))
}

/// A digest of few bits, as changes of times and of statuses are many: the finisher of SplitMix64.
fn scalar_digest(kind: Scalar, bits: u64) -> i64 {
    let mut mixed = bits ^ (kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).cast_signed() & MASK
}

/// Columns of few bits, so that two of them with the same value do not count the same.
#[derive(Clone, Copy)]
enum Scalar {
    Status = 1,
    StartTime,
    EndTime,
    LeaseEnd,
    Heartbeat,
}

/// The digest of a time; SQLite keeps no negative zero.
fn time_digest(kind: Scalar, time: f64) -> i64 {
    scalar_digest(kind, (time + 0.0).to_bits())
}

fn optional_time(kind: Scalar, time: Option<f64>) -> i64 {
    time.map_or(0, |time| time_digest(kind, time))
}

/// What the time at which a session begins and ends adds to the checksum of its rollout or its attempt at time 0.
pub(crate) fn session_digest(time: f64) -> i64 {
    let at = |time| add(time_digest(Scalar::StartTime, time), time_digest(Scalar::EndTime, time));
    difference(at(0.0), at(time))
}

/// What a change adds to a checksum, between 0 and [`MASK`].
pub(crate) fn difference(before: i64, after: i64) -> i64 {
    after.wrapping_sub(before) & MASK
}

/// The digest of a status: of the FNV-1a hash of its word.
fn status_digest(status: &str) -> i64 {
    let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    scalar_digest(Scalar::Status, status.bytes().fold(0xcbf2_9ce4_8422_2325, mixed))
}

/// The digest of a rollout's status and end.
pub(crate) fn rollout_state(status: RolloutStatus, end_time: Option<f64>) -> i64 {
    state(status.as_str(), end_time)
}

/// The digest of an attempt's status and end.
pub(crate) fn attempt_state(status: AttemptStatus, end_time: Option<f64>) -> i64 {
    state(status.as_str(), end_time)
}

fn state(status: &str, end_time: Option<f64>) -> i64 {
    add(status_digest(status), optional_time(Scalar::EndTime, end_time))
}

/// The digest of the resources of a rollout, which `resources` keeps beside their id.
pub(crate) fn resources_digest(resources_id: Option<&str>) -> i64 {
    optional_digest("resources_id", resources_id.map(str::as_bytes))
}

/// Writes what the ids of resources from before there were checksums add to the rollouts that have them.
pub(crate) async fn write_missing_id_checksums(connection: &mut AnyConnection) -> Result<()> {
    let rows = Sql::new("SELECT resources_id FROM resources WHERE id_checksum IS NULL").all(connection).await?;
    for row in &rows {
        let id: &str = column(row, "resources_id")?;
        sqlx::query("UPDATE resources SET id_checksum = $2 WHERE resources_id = $1")
            .bind(id)
            .bind(resources_digest(Some(id)))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// The digest of an attempt's worker.
pub(crate) fn worker_digest(worker_id: Option<&str>) -> i64 {
    optional_digest("worker_id", worker_id.map(str::as_bytes))
}

/// The digest of an attempt's metadata, by its text.
pub(crate) fn metadata_digest(metadata: Option<&str>) -> i64 {
    optional_digest("metadata", metadata.map(str::as_bytes))
}

/// The digest of the end of an attempt's lease.
pub(crate) fn lease_digest(lease_end: Option<f64>) -> i64 {
    optional_time(Scalar::LeaseEnd, lease_end)
}

/// What the ids of an attempt count in the checksum of its heartbeat.
pub(crate) fn heartbeat_ids(rollout_id: &str, attempt_id: &str) -> i64 {
    digest("last_heartbeat_time", &[Some(rollout_id.as_bytes()), Some(attempt_id.as_bytes())])
}

/// The checksum of an attempt's last heartbeat, which is a column of its own: a call changes nothing else of the attempt.
pub(crate) fn heartbeat_checksum(rollout_id: &str, attempt_id: &str, time: f64) -> i64 {
    add(heartbeat_ids(rollout_id, attempt_id), heartbeat_digest(time))
}

/// What the time of a heartbeat counts in its checksum.
pub(crate) fn heartbeat_digest(time: f64) -> i64 {
    time_digest(Scalar::Heartbeat, time)
}

/// A rollout's columns. `run_id` and `step` are in its metadata, its places in the weight of its row.
pub(crate) struct RolloutColumns<'c> {
    pub rollout_id: &'c str,
    pub input: &'c str,
    pub start_time: f64,
    pub end_time: Option<f64>,
    pub mode: Option<&'c str>,
    pub resources_id: Option<&'c str>,
    pub status: &'c str,
    pub config: &'c str,
    pub metadata: Option<&'c str>,
}

impl<'c> RolloutColumns<'c> {
    /// Those of a row of `rollouts`.
    pub(crate) fn from_row(row: &'c AnyRow) -> Result<Self> {
        Ok(Self {
            rollout_id: column(row, "rollout_id")?,
            input: column(row, "input")?,
            start_time: column(row, "start_time")?,
            end_time: column(row, "end_time")?,
            mode: column(row, "mode")?,
            resources_id: column(row, "resources_id")?,
            status: column(row, "status")?,
            config: column(row, "config")?,
            metadata: column(row, "metadata")?,
        })
    }

    pub(crate) fn checksum(&self) -> i64 {
        let fixed = digest(
            "rollout",
            &[
                Some(self.rollout_id.as_bytes()),
                Some(self.input.as_bytes()),
                self.mode.map(str::as_bytes),
                Some(self.config.as_bytes()),
                self.metadata.map(str::as_bytes),
            ],
        );
        let start_time = time_digest(Scalar::StartTime, self.start_time);
        [start_time, resources_digest(self.resources_id), state(self.status, self.end_time)]
            .into_iter()
            .fold(fixed, add)
    }
}

/// An attempt's columns. Its counts are those of its rows, and its heartbeat has a checksum of its own.
pub(crate) struct AttemptColumns<'c> {
    pub rollout_id: &'c str,
    pub attempt_id: &'c str,
    /// 0 where SQL adds it.
    pub sequence_id: i64,
    pub start_time: f64,
    pub end_time: Option<f64>,
    pub status: &'c str,
    pub worker_id: Option<&'c str>,
    pub metadata: Option<&'c str>,
    pub grader: Option<&'c str>,
    pub lease_end: Option<f64>,
    pub revision: i64,
}

impl<'c> AttemptColumns<'c> {
    /// Those of a row of `attempts`.
    pub(crate) fn from_row(row: &'c AnyRow) -> Result<Self> {
        Ok(Self {
            rollout_id: column(row, "rollout_id")?,
            attempt_id: column(row, "attempt_id")?,
            sequence_id: column(row, "sequence_id")?,
            start_time: column(row, "start_time")?,
            end_time: column(row, "end_time")?,
            status: column(row, "status")?,
            worker_id: column(row, "worker_id")?,
            metadata: column(row, "metadata")?,
            grader: column(row, "grader")?,
            lease_end: column(row, "lease_end")?,
            revision: column(row, "revision")?,
        })
    }

    pub(crate) fn checksum(&self) -> i64 {
        let fixed = digest(
            "attempt",
            &[Some(self.rollout_id.as_bytes()), Some(self.attempt_id.as_bytes()), self.grader.map(str::as_bytes)],
        );
        [
            time_digest(Scalar::StartTime, self.start_time),
            state(self.status, self.end_time),
            worker_digest(self.worker_id),
            metadata_digest(self.metadata),
            lease_digest(self.lease_end),
            self.sequence_id.wrapping_mul(SEQUENCE_WEIGHT),
            self.revision.wrapping_mul(REVISION_WEIGHT),
        ]
        .into_iter()
        .fold(fixed, add)
    }
}

/// What a rollout adds to the total of its table: its checksum, bound to its place in the table and in the queue, so that
/// two rows which change places do not add up to the same.
pub(crate) fn rollout_weight(checksum: i64, position: i64, queue_position: Option<i64>) -> i64 {
    let place = (checksum & HALF).wrapping_mul(position & HALF);
    let queued = ((checksum >> 30) & HALF).wrapping_mul(queue_position.unwrap_or_default() & HALF);
    add(add(checksum, place), queued)
}

/// As [`rollout_weight`], of `OLD` or `NEW` in a trigger.
fn rollout_weight_sql(row: &str) -> String {
    format!(
        "(COALESCE({row}.checksum, 0) + (COALESCE({row}.checksum, 0) & {HALF}) * ({row}.position & {HALF})
         + ((COALESCE({row}.checksum, 0) >> 30) & {HALF}) * (COALESCE({row}.queue_position, 0) & {HALF}))"
    )
}

/// Triggers of the one connection to SQLite that writes: the totals follow what it changes, and nothing else. On PostgreSQL
/// a migration has made the same ones, for transactions that say that they are the program's.
pub(crate) fn triggers() -> String {
    let rollout = rollout_weight_sql;
    let attempt = |row: &str| format!("COALESCE({row}.checksum, 0)");
    let of_rollouts = of_table("rollouts", "checksum, position, queue_position", &rollout("OLD"), &rollout("NEW"));
    let of_attempts = of_table("attempts", "checksum", &attempt("OLD"), &attempt("NEW"));
    format!("{of_rollouts}{of_attempts}")
}

fn of_table(table: &str, columns: &str, old: &str, new: &str) -> String {
    let total = |change: &str, weight: &str| {
        format!(
            "UPDATE row_totals SET row_count = row_count {change}, digest = (digest {weight}) & {MASK}
             WHERE table_name = '{table}';"
        )
    };
    let (added, removed) = (total("+ 1", &format!("+ {new}")), total("- 1", &format!("- {old}")));
    let changed = total("", &format!("+ {new} - {old}"));
    format!(
        "
    CREATE TEMP TRIGGER {table}_row_is_added AFTER INSERT ON main.{table} BEGIN {added} END;
    CREATE TEMP TRIGGER {table}_row_is_removed AFTER DELETE ON main.{table} BEGIN {removed} END;
    CREATE TEMP TRIGGER {table}_row_is_changed AFTER UPDATE OF {columns} ON main.{table} BEGIN {changed} END;"
    )
}
