//! Hides the secret that keys are made with from users' queries, however they are spelled.

use sqlx::{AnyConnection, AssertSqlSafe, PgConnection, Row};

use crate::database::sql::column;
use crate::{Result, StoreError};

fn refused() -> StoreError {
    StoreError::invalid("sql", "the table `secrets` holds what keys are made with, and no query reads it")
}

/// On SQLite: a query is compiled before it runs, and its program names the root page of every tree that it opens, whatever it, a view
/// or a subquery called the table.
pub(crate) async fn refuse_if_opened(connection: &mut AnyConnection, text: &str, begins_with: &str) -> Result<()> {
    // Neither gives rows of a table.
    if ["EXPLAIN", "PRAGMA"].iter().any(|word| word.eq_ignore_ascii_case(begins_with)) {
        return Ok(());
    }
    let trees = sqlx::query("SELECT rootpage FROM main.sqlite_schema WHERE tbl_name = 'secrets'");
    let roots = trees.fetch_all(&mut *connection).await?;
    let roots = roots.iter().map(|row| column(row, "rootpage")).collect::<Result<Vec<i64>>>()?;
    let program = sqlx::query(AssertSqlSafe(format!("EXPLAIN {text}"))).fetch_all(&mut *connection).await?;
    for step in &program {
        let opens = matches!(&*column::<String>(step, "opcode")?, "OpenRead" | "OpenWrite" | "ReopenIdx");
        let (root, database) = (column::<i64>(step, "p2")?, column::<i64>(step, "p3")?);
        if opens && database == 0 && roots.contains(&root) {
            return Err(refused());
        }
    }
    Ok(())
}

/// On PostgreSQL: in the transaction of the query, which is never committed, the rows are gone, whatever function reads them.
pub(crate) async fn hide_rows(connection: &mut PgConnection, text: &str) -> Result<()> {
    // Only for the error message: the rows are hidden from other spellings too.
    if text.to_ascii_lowercase().split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "secrets") {
        return Err(refused());
    }
    let hidden = sqlx::raw_sql(
        "BEGIN READ WRITE; SET LOCAL lock_timeout = '5s'; DELETE FROM secrets; SET TRANSACTION READ ONLY",
    );
    let Err(error) = hidden.execute(&mut *connection).await else { return Ok(()) };
    if error.as_database_error().and_then(|error| error.code()).as_deref() != Some("42501") {
        return Err(error.into());
    }
    // A role that may not change the table may still read it.
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    let row = sqlx::query("SELECT has_table_privilege('secrets', 'SELECT') AS reads").fetch_one(connection).await?;
    match row.try_get("reads")? {
        true => {
            let message = "this role may read the table `secrets`, which holds what keys are made with, and may not hide \
                           it; REVOKE SELECT ON secrets FROM it";
            Err(StoreError::invalid("store.url", message))
        }
        false => Ok(()),
    }
}
