//! SQL that a user writes, for reading only.

use sqlx::any::{AnyRow, AnyTypeInfoKind};
use sqlx::{AssertSqlSafe, Column, Row, ValueRef};

use crate::database::dialect::Dialect;
use crate::database::location::Location;
use crate::database::options::BUSY_TIMEOUT;
use crate::queries::Queries;
use crate::queries::hidden_secrets::refuse_if_opened;
use crate::queries::postgres_sql;
use crate::queries::sql_rows::{SqlRows, SqlValue};
use crate::{Result, StoreError};

/// What a query may begin with.
const QUERIES: [&str; 7] = ["SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA", "SHOW", "TABLE"];

impl Queries {
    /// Runs one query on a connection that cannot write. No query reads the secret that keys are made with.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for several statements, for one that is not a query, or for one that reads that secret.
    pub async fn query_sql(&self, text: &str) -> Result<SqlRows> {
        let begins_with = check(text)?;
        if let Location::Postgres(url) = self.database.location() {
            return postgres_sql::query(url, &Dialect::Postgres.prepare_reading(BUSY_TIMEOUT), text).await;
        }
        // The query may change the connection's settings.
        let mut connection = self.database.own_reader().await?;
        refuse_if_opened(&mut connection, text, &begins_with).await?;
        // What it may do is the user's own choice: the database refuses to write.
        let rows = sqlx::query(AssertSqlSafe(text.to_owned())).fetch_all(&mut *connection).await?;
        let columns = rows.first().map(|row| row.columns().iter().map(|column| column.name().to_owned()).collect());
        Ok(SqlRows { columns: columns.unwrap_or_default(), rows: rows.iter().map(values).collect::<Result<_>>()? })
    }
}

fn values(row: &AnyRow) -> Result<Vec<SqlValue>> {
    (0..row.len()).map(|index| value(row, index)).collect()
}

fn value(row: &AnyRow, index: usize) -> Result<SqlValue> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(SqlValue::Null);
    }
    let kind = raw.type_info().kind();
    Ok(match kind {
        AnyTypeInfoKind::Null => SqlValue::Null,
        AnyTypeInfoKind::Bool => SqlValue::Boolean(row.try_get(index)?),
        AnyTypeInfoKind::SmallInt | AnyTypeInfoKind::Integer | AnyTypeInfoKind::BigInt => {
            SqlValue::Integer(row.try_get(index)?)
        }
        AnyTypeInfoKind::Real => SqlValue::Real(f64::from(row.try_get::<f32, _>(index)?)),
        AnyTypeInfoKind::Double => SqlValue::Real(row.try_get(index)?),
        AnyTypeInfoKind::Text => SqlValue::Text(row.try_get(index)?),
        AnyTypeInfoKind::Blob => SqlValue::Blob(row.try_get(index)?),
    })
}

/// The word that a query begins with. Refuses what is not one query.
fn check(text: &str) -> Result<String> {
    let refused = |message: &str| Err(StoreError::invalid("sql", message));
    let mut statements = bare(text)
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter();
    let Some(first) = statements.next() else { return refused("there is no statement") };
    if statements.next().is_some() {
        return refused("there is more than one statement; give them one at a time");
    }
    let word = first.trim_start_matches('(').split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if QUERIES.iter().any(|query| query.eq_ignore_ascii_case(word)) {
        Ok(word.to_owned())
    } else {
        refused("only queries are run here, which change nothing: SELECT, WITH, VALUES, EXPLAIN, PRAGMA, SHOW, TABLE")
    }
}

/// A text without its comments and with nothing in its quotes, so that the semicolons left are those that end
/// statements.
fn bare(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '\'' | '"' | '`' => quoted(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '$' => dollar_quoted(rest),
            _ => 0,
        };
        if skipped == 0 {
            bare.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            bare.push(' ');
            rest = &rest[skipped..];
        }
    }
    bare
}

/// Bytes of a text in quotes. A doubled quote ends one text and begins the next, which comes to the same.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

/// Bytes of PostgreSQL's `$tag$ .. $tag$`; 0 if it is none.
fn dollar_quoted(text: &str) -> usize {
    let Some(end) = text[1..].find('$') else { return 0 };
    let tag = &text[..end + 2];
    let is_tag = tag[1..=end].chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_tag {
        return 0;
    }
    text[tag.len()..].find(tag).map_or(text.len(), |at| tag.len() + at + tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::testing::{TestStore, generation};

    #[test]
    fn only_one_query_passes() {
        for text in [
            "SELECT 1",
            " select ';' AS x ; ",
            "-- a; b\nSELECT 1;",
            "/* ; */ (SELECT 1)",
            "WITH x AS (SELECT 'it''s; me') SELECT * FROM x",
            "SELECT $a$ ; $a$, \";\"",
            "VALUES (1)",
        ] {
            check(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in [
            "",
            " ; ",
            "-- nothing",
            "SELECT 1; SELECT 2",
            "DELETE FROM runs",
            "BEGIN",
            "SELECT 1; --\n DROP TABLE runs",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn every_kind_of_value_is_read() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
        let found = store
            .queries().query_sql("SELECT model, sampled_length, sampled_tokens, parent_id, CAST(0.5 AS DOUBLE PRECISION) AS half FROM generations")
            .await
            .unwrap();
        assert_eq!(found.columns, ["model", "sampled_length", "sampled_tokens", "parent_id", "half"]);
        let row = &found.rows[0];
        assert_eq!(row[0], SqlValue::Text("tiny".into()));
        assert_eq!(row[1..4], [SqlValue::Integer(1), SqlValue::Blob(vec![2, 0, 0, 0]), SqlValue::Null]);
        assert_eq!(store.queries().query_sql("SELECT 1 WHERE 1 = 0").await.unwrap(), SqlRows::default());
    }

    #[tokio::test]
    async fn no_query_reads_the_secret_that_keys_are_made_with_however_it_is_spelled() {
        let store = TestStore::new().await;
        store.issued_keys().await.unwrap();
        let everywhere = [
            "SELECT * FROM secrets",
            "select secret from SeCrEtS",
            "SELECT * FROM \"secrets\"",
            "SELECT (SELECT secret FROM secrets) AS x",
            "WITH x AS (SELECT * FROM secrets) SELECT * FROM x",
            "SELECT r.rollout_id, s.secret FROM secrets s LEFT JOIN rollouts r ON 1 = 1",
            "/* ; */ SELECT max(secret) FROM\nsecrets -- it",
            "SELECT 1 AS x UNION ALL SELECT 2 FROM secrets WHERE secret > ''",
        ];
        let sqlite = [
            "SELECT * FROM main.secrets",
            "SELECT * FROM [secrets]",
            "SELECT * FROM `secrets`",
            "SELECT name FROM secrets",
            "VALUES ((SELECT hex(secret) FROM secrets))",
            "SELECT count(*) FROM secrets",
        ];
        let postgres = [
            "TABLE secrets",
            "SELECT * FROM public.secrets",
            "SELECT * FROM U&\"secret\\0073\"",
            "SELECT CAST(query_to_xml('select * from sec' || 'rets', true, true, '') AS TEXT) AS x",
            "SELECT CAST(table_to_xml(('sec' || 'rets')::regclass, true, true, '') AS TEXT) AS x",
            "SELECT CAST(schema_to_xml(current_schema(), true, true, '') AS TEXT) AS x",
        ];
        let is_postgres = store.database.is_postgres();
        let own: &[&str] = if is_postgres { &postgres } else { &sqlite };
        let secret = secret_of(&store).await;
        for text in everywhere.iter().chain(own) {
            match store.queries().query_sql(text).await {
                Err(error) => assert!(error.to_string().contains("secrets` holds"), "{text}: {error}"),
                Ok(found) => {
                    assert!(is_postgres, "{text}");
                    assert!(!format!("{found:?}").to_lowercase().contains(&secret), "{text}");
                }
            }
        }
        // Queries of the table's schema and not of its rows, and of what only has its name.
        store.queries().query_sql("SELECT * FROM rollouts WHERE rollout_id = 'a'").await.unwrap();
        if !is_postgres {
            store.queries().query_sql("SELECT 'secrets' AS x").await.unwrap();
            store.queries().query_sql("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").await.unwrap();
            store.queries().query_sql("PRAGMA table_info(secrets)").await.unwrap();
        }
        assert_eq!(secret_of(&store).await, secret, "it is still there");
    }

    /// The secret, as a query would print it.
    async fn secret_of(store: &Store) -> String {
        let row = sqlx::query("SELECT secret FROM secrets")
            .fetch_one(&mut *store.database().reader().await.unwrap())
            .await
            .unwrap();
        let bytes: Vec<u8> = row.get("secret");
        hex::encode(bytes)
    }

    #[tokio::test]
    async fn nothing_can_be_written() {
        let store = TestStore::new().await;
        let error = store.queries().query_sql("DELETE FROM runs").await.unwrap_err();
        assert!(error.to_string().starts_with("sql: only queries"), "{error}");
        // A query may hide a change.
        let hidden = if store.database.is_postgres() {
            "WITH gone AS (DELETE FROM runs RETURNING 1) SELECT * FROM gone"
        } else {
            "WITH x AS (SELECT 1) DELETE FROM runs"
        };
        let error = store.queries().query_sql(hidden).await.unwrap_err();
        assert!(matches!(error, StoreError::Database { .. } | StoreError::ReadOnly), "{error:?}");
    }
}
