//! Whether rows are those that were recorded.

use std::collections::HashMap;

use fulgurite_types::unpack_logprobs;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::checksums::{GenerationColumns, Recorded};
use crate::database::sql::{Sql, column, count};
use crate::housekeeping::check::findings::{Check, CheckEvent, PAGE};

/// An attempt of a page: the counts and digest in its row, and those of its spans and generations.
struct Attempt {
    /// Its place in the page.
    position: i64,
    recorded: Option<Recorded>,
    found: Recorded,
}

/// Rollout id and attempt id.
type Key = (String, String);

impl Check<'_> {
    /// Looks at generations by themselves; how many have no checksum.
    pub(super) fn checksums(&mut self, rows: &[AnyRow]) -> Result<u64> {
        let mut without = 0;
        for row in rows {
            let id: &str = column(row, "generation_id")?;
            let logprobs = self.unless_damaged("readable", id, column::<Option<&[u8]>>(row, "logprobs"))?.flatten();
            if let Some(place) = logprobs.and_then(not_finite) {
                self.violation("logprobs", id, format!("logprob {place} is not a finite number"));
            }
            let Some(stored) = column::<Option<i64>>(row, "checksum")? else {
                without += 1;
                continue;
            };
            let columns = self.unless_damaged("readable", id, GenerationColumns::from_row(row))?;
            if columns.is_some_and(|columns| columns.checksum() != stored) {
                self.violation("checksum", id, "it is not what was recorded: its checksum is another one");
            }
        }
        Ok(without)
    }

    pub(super) fn without_checksum(&mut self, table: &'static str, rows: u64) {
        if rows > 0 {
            (self.report)(CheckEvent::WithoutChecksum { table, rows });
        }
    }

    /// Whether the spans and generations of each attempt are those that were recorded.
    pub(super) async fn rows_of_attempts(&mut self, connection: &mut AnyConnection) -> Result<()> {
        const TABLE: &str = "attempts";
        let total = Sql::new("SELECT COUNT(*) FROM ").push(TABLE).total(connection).await?;
        let (mut last, mut done) = (Key::default(), 0);
        loop {
            let attempts = page_of_attempts(connection, &last).await;
            let attempts = self.unless_damaged("readable", "spans", attempts)?.unwrap_or_default();
            let Some((key, _)) = attempts.iter().max_by_key(|(_, attempt)| attempt.position) else { break };
            last.clone_from(key);
            done += attempts.len() as u64;
            for (key, attempt) in attempts {
                // One without counts is from before there were any, or its checksum shows that they are missing.
                if let Some(recorded) = attempt.recorded {
                    self.recorded(&key, recorded, attempt.found);
                }
            }
            (self.report)(CheckEvent::Progress { table: TABLE, done, total: total.max(done) });
        }
        Ok(())
    }

    fn recorded(&mut self, (rollout_id, attempt_id): &Key, recorded: Recorded, found: Recorded) {
        let row = format!("{rollout_id}/{attempt_id}");
        let numbers =
            [("spans", found.spans, recorded.spans), ("generations", found.generations, recorded.generations)];
        for (what, found, recorded) in numbers.into_iter().filter(|(_, found, recorded)| found != recorded) {
            self.violation(
                "attempt_rows",
                &row,
                format!("{what} that were recorded: {recorded}, that are there: {found}"),
            );
        }
        let numbers_differ = numbers.iter().any(|(_, found, recorded)| found != recorded);
        if !numbers_differ && found.digest != recorded.digest {
            let message = "its spans and generations are not those that were recorded: their digest is another one";
            self.violation("attempt_rows", &row, message);
        }
    }
}

/// The place of the first logprob that is not a finite number.
fn not_finite(logprobs: &[u8]) -> Option<usize> {
    unpack_logprobs(logprobs)?.iter().position(|logprob| !logprob.is_finite())
}

/// Attempts after an id, in the order of their ids, with their spans and generations counted. One statement sees one state
/// of the database even if others write meanwhile.
async fn page_of_attempts(connection: &mut AnyConnection, last: &Key) -> Result<HashMap<Key, Attempt>> {
    let mut sql = Sql::new(
        "WITH page AS (
             SELECT rollout_id, attempt_id, span_count, generation_count, digest,
                 ROW_NUMBER() OVER (ORDER BY rollout_id, attempt_id) AS position
             FROM attempts
             WHERE (rollout_id, attempt_id) > (",
    );
    sql.text(&last.0).push(", ").text(&last.1).push(") ORDER BY rollout_id, attempt_id").part(Some(PAGE), 0)?;
    sql.push(
        ")
         SELECT page.*, s.sequence_id, s.body, g.generation_id, g.checksum FROM page
         LEFT JOIN spans s ON s.rollout_id = page.rollout_id AND s.attempt_id = page.attempt_id
             AND page.digest IS NOT NULL
         LEFT JOIN generations g ON g.rollout_id = s.rollout_id AND g.attempt_id = s.attempt_id
             AND g.span_id = s.span_id",
    );
    let mut attempts: HashMap<Key, Attempt> = HashMap::new();
    sql.each(connection, |row| {
        let key = (column(row, "rollout_id")?, column(row, "attempt_id")?);
        let (position, recorded) = (column(row, "position")?, recorded_of(row)?);
        let attempt = attempts.entry(key).or_insert(Attempt { position, recorded, found: Recorded::default() });
        attempt.found = attempt.found.and(found_in(row)?);
        Ok(())
    })
    .await?;
    Ok(attempts)
}

fn recorded_of(row: &AnyRow) -> Result<Option<Recorded>> {
    let numbers: [Option<i64>; 3] =
        [column(row, "span_count")?, column(row, "generation_count")?, column(row, "digest")?];
    let [Some(spans), Some(generations), Some(digest)] = numbers else { return Ok(None) };
    Ok(Some(Recorded { spans, generations, digest }))
}

fn found_in(row: &AnyRow) -> Result<Recorded> {
    let Some(body) = column::<Option<&str>>(row, "body")? else { return Ok(Recorded::default()) };
    let span = Recorded::span(body, count(row, "sequence_id")?)?;
    Ok(match column::<Option<&str>>(row, "generation_id")? {
        Some(_) => span.and(Recorded::generation(column(row, "checksum")?)),
        None => span,
    })
}
