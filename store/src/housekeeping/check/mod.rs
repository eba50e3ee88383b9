//! Checks that a store keeps its laws: those that the database can check itself, and those over several rows.

mod checksums;
mod findings;
mod laws;
mod renewal;
mod row_totals;
mod rows;

use fulgurite_types::{Generation, pack_tokens};
use laws::{LAWS, Law};
use rows::{TABLES, Table};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

pub use findings::{CheckEvent, Violation};
pub use renewal::{RenewalMode, TableRenewal};

use self::findings::{Check, PAGE};
use crate::call_records::conversations::conversations;
use crate::call_records::tokens::PrefixHasher;
use crate::database::dialect::Dialect;
use crate::database::sql::{Sql, column, count};
use crate::generations::reading as generations;
use crate::generations::reading::rebuild;
use crate::housekeeping::Housekeeping;
use crate::{Result, StoreError};

impl Housekeeping {
    /// Checks every row of the store and reports each violation; nothing is changed. Returns the number of violations.
    ///
    /// # Errors
    /// Only if the database does not answer. That a row, or a table, cannot be read is a violation.
    pub async fn check(&self, report: &mut (dyn FnMut(CheckEvent) + Send)) -> Result<u64> {
        let mut check = Check { violations: 0, report };
        let mut connection = self.database.reader().await?;
        if Dialect::of(&connection) == Dialect::Sqlite {
            check.file(&mut connection).await?;
        }
        for law in LAWS {
            check.law(law, &mut connection).await?;
        }
        for table in TABLES {
            check.table(table, &mut connection).await?;
        }
        check.row_totals(&mut connection).await?;
        check.generations(&mut connection).await?;
        check.rows_of_attempts(&mut connection).await?;
        Ok(check.violations)
    }
}

impl Check<'_> {
    fn violation(&mut self, law: &'static str, row: &str, message: impl Into<String>) {
        self.violations += 1;
        (self.report)(CheckEvent::Violation(Violation { law, row: row.to_owned(), message: message.into() }));
    }

    /// What a query gave; what the database could not read is a violation, and then nothing is given.
    fn unless_damaged<T>(&mut self, law: &'static str, what: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ (StoreError::Database { .. } | StoreError::Corrupt { .. })) => {
                self.violation(law, what, error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// SQLite's own check of its file.
    async fn file(&mut self, connection: &mut AnyConnection) -> Result<()> {
        let rows = Sql::new("SELECT integrity_check AS message FROM pragma_integrity_check").all(connection).await;
        for row in self.unless_damaged("database", "file", rows)?.unwrap_or_default() {
            let message: String = column(&row, "message")?;
            if message != "ok" {
                self.violation("database", "file", message);
            }
        }
        let rows = Sql::new(
            r#"SELECT "table" AS child, parent, COUNT(*) AS number FROM pragma_foreign_key_check GROUP BY 1, 2"#,
        )
        .all(connection)
        .await;
        for row in self.unless_damaged("database", "file", rows)?.unwrap_or_default() {
            let (child, parent): (String, String) = (column(&row, "child")?, column(&row, "parent")?);
            let number: u64 = count(&row, "number")?;
            self.violation(
                "foreign_key",
                &child,
                format!("{number} rows refer to rows of {parent} that are not there"),
            );
        }
        Ok(())
    }

    async fn law(&mut self, law: &Law, connection: &mut AnyConnection) -> Result<()> {
        let rows = Sql::new(law.broken_by).all(connection).await;
        for row in self.unless_damaged(law.name, "table", rows)?.unwrap_or_default() {
            self.violation(law.name, column(&row, "id")?, law.message);
        }
        Ok(())
    }

    async fn table(&mut self, table: &Table, connection: &mut AnyConnection) -> Result<()> {
        let select = format!("SELECT listed.*, {} AS row_id FROM ({}) AS listed", table.id, table.select);
        let mut pages = Pages::new(select, table.name, connection).await?;
        while let Some(rows) = self.unless_damaged("readable", table.name, pages.next(connection).await)? {
            for row in &rows {
                if let Err(message) = (table.read)(row) {
                    self.violation("readable", &format!("{} {}", table.name, column::<&str>(row, "row_id")?), message);
                }
            }
            if rows.is_empty() {
                return Ok(());
            }
            (self.report)(pages.progress());
        }
        Ok(())
    }

    async fn generations(&mut self, connection: &mut AnyConnection) -> Result<()> {
        const TABLE: &str = "generations";
        let select = format!("SELECT * FROM ({}) AS listed", generations::SELECT);
        let (mut pages, mut without_checksum) = (Pages::new(select, TABLE, connection).await?, 0);
        while let Some(rows) = self.unless_damaged("readable", TABLE, pages.next(connection).await)? {
            if rows.is_empty() {
                break;
            }
            without_checksum += self.checksums(&rows)?;
            match rebuild(connection, &rows).await {
                Ok(generations) => {
                    for (row, generation) in rows.iter().zip(&generations) {
                        self.context(row, generation)?;
                    }
                }
                // One that cannot be read must not hide the others.
                Err(_) => self.generations_one_by_one(&rows, connection).await?,
            }
            self.conversations(&rows, connection).await?;
            (self.report)(pages.progress());
        }
        self.without_checksum(TABLE, without_checksum);
        Ok(())
    }

    async fn generations_one_by_one(&mut self, rows: &[AnyRow], connection: &mut AnyConnection) -> Result<()> {
        for row in rows {
            let id: &str = column(row, "generation_id")?;
            let rebuilt = rebuild(connection, std::slice::from_ref(row)).await;
            for generation in self.unless_damaged("generation_chain", id, rebuilt)?.unwrap_or_default() {
                self.context(row, &generation)?;
            }
        }
        Ok(())
    }

    /// Whether the messages that are kept are those by which later calls find them.
    async fn conversations(&mut self, rows: &[AnyRow], connection: &mut AnyConnection) -> Result<()> {
        let ids = rows.iter().map(|row| column(row, "generation_id")).collect::<Result<Vec<&str>>>()?;
        let together = conversations(connection, &ids).await;
        for (row, id) in rows.iter().zip(ids) {
            let (length, hash): (Option<i64>, Option<&[u8]>) =
                (column(row, "messages_length")?, column(row, "messages_hash")?);
            let (Some(length), Some(hash)) = (length, hash) else { continue };
            let found = match &together {
                Ok(found) => Ok(found.get(id).cloned()),
                // One that cannot be read must not hide the others.
                Err(_) => conversations(connection, &[id]).await.map(|mut found| found.remove(id)),
            };
            if let Some(Some(conversation)) = self.unless_damaged("messages", id, found)?
                && !conversation.has(length, hash)?
            {
                self.violation("messages", id, "its messages are not those that were recorded");
            }
        }
        Ok(())
    }

    /// Whether length and hash, by which later prompts find this generation, are those of its tokens.
    fn context(&mut self, row: &AnyRow, generation: &Generation) -> Result<()> {
        let tokens = [generation.prompt_tokens.as_slice(), generation.sampled_tokens.as_slice()].concat();
        let hash = PrefixHasher::new(&pack_tokens(&tokens)).prefix(tokens.len()).unwrap_or_default();
        let (length, stored): (i64, &[u8]) = (column(row, "context_length")?, column(row, "context_hash")?);
        if usize::try_from(length) != Ok(tokens.len()) {
            let message = format!("it has {} tokens and says {length}", tokens.len());
            self.violation("context_length", &generation.generation_id, message);
        } else if stored != hash {
            self.violation("context_hash", &generation.generation_id, "its tokens are not those that were recorded");
        }
        Ok(())
    }
}

/// A table, some rows at a time.
struct Pages {
    select: String,
    table: &'static str,
    position: i64,
    done: u64,
    total: u64,
}

impl Pages {
    async fn new(select: String, table: &'static str, connection: &mut AnyConnection) -> Result<Self> {
        let total = Sql::new("SELECT COUNT(*) FROM ").push(table).total(connection).await?;
        Ok(Self { select, table, position: i64::MIN, done: 0, total })
    }

    /// The next rows; none at the end.
    async fn next(&mut self, connection: &mut AnyConnection) -> Result<Vec<AnyRow>> {
        let mut sql = Sql::new(&self.select);
        sql.push(" WHERE position > ").integer(self.position).push(" ORDER BY position").part(Some(PAGE), 0)?;
        let rows = sql.all(connection).await?;
        if let Some(last) = rows.last() {
            self.position = column(last, "position")?;
        }
        self.done += rows.len() as u64;
        Ok(rows)
    }

    fn progress(&self) -> CheckEvent {
        CheckEvent::Progress { table: self.table, done: self.done, total: self.total.max(self.done) }
    }
}

#[cfg(test)]
mod tests;
