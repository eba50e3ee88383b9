//! Users' SQL on PostgreSQL. Its many types have one form in common, the text that its own clients show.

use sqlx::postgres::{PgConnectOptions, PgRow, PgValueFormat};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Executor, PgConnection, Row, SqlSafeStr, TypeInfo, ValueRef,
};

use crate::database::location::PATIENCE;
use crate::queries::hidden_secrets::hide_rows;
use crate::queries::sql_rows::{SqlRows, SqlValue};
use crate::{Result, StoreError};

/// The most digits of a number that a float of 64 bits always keeps.
const EXACT_DIGITS: usize = 15;

/// Runs one query on a connection of its own, which `preparation` keeps from writing.
pub(crate) async fn query(url: &str, preparation: &str, text: &str) -> Result<SqlRows> {
    let options =
        url.parse::<PgConnectOptions>().map_err(|error| StoreError::invalid("store.url", error.to_string()))?;
    let options = options.disable_statement_logging();
    let connecting = tokio::time::timeout(PATIENCE, options.connect());
    let mut connection = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    let found = on(&mut connection, preparation, text).await;
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "the connection of a query did not close");
    }
    found
}

async fn on(connection: &mut PgConnection, preparation: &str, text: &str) -> Result<SqlRows> {
    let preparation = format!("{preparation}; SET bytea_output = 'hex'");
    sqlx::raw_sql(AssertSqlSafe(preparation)).execute(&mut *connection).await?;
    hide_rows(connection, text).await?;
    // What follows is sent as a script, which could end the transaction that hides the secret. The server itself prepares
    // no more than one statement.
    connection.prepare(AssertSqlSafe(text.to_owned()).into_sql_str()).await?;
    let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut *connection).await?;
    let columns = rows.first().map(|row| row.columns().iter().map(|column| column.name().to_owned()).collect());
    Ok(SqlRows { columns: columns.unwrap_or_default(), rows: rows.iter().map(values).collect::<Result<_>>()? })
}

fn values(row: &PgRow) -> Result<Vec<SqlValue>> {
    (0..row.len()).map(|index| value(row, index)).collect()
}

fn value(row: &PgRow, index: usize) -> Result<SqlValue> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(SqlValue::Null);
    }
    let kind = raw.type_info().name().to_owned();
    let corrupt = |message: String| StoreError::Corrupt { column: format!("{kind} in column {index}"), message };
    if raw.format() != PgValueFormat::Text {
        return Err(corrupt("the server sent it in binary form".to_owned()));
    }
    let text = raw.as_str().map_err(|error| corrupt(error.to_string()))?;
    Ok(read(&kind, text))
}

/// A value from its text. What no narrower kind holds exactly stays a text.
fn read(kind: &str, text: &str) -> SqlValue {
    let as_text = || SqlValue::Text(text.to_owned());
    let real = || text.parse().ok().filter(|number: &f64| number.is_finite()).map(SqlValue::Real);
    let integer = || text.parse().ok().map(SqlValue::Integer);
    let shortest = if text.contains('.') { text.trim_end_matches('0') } else { text };
    let digits = shortest.bytes().filter(u8::is_ascii_digit).count();
    match kind {
        "BOOL" => match text {
            "t" => SqlValue::Boolean(true),
            "f" => SqlValue::Boolean(false),
            _ => as_text(),
        },
        "INT2" | "INT4" | "INT8" | "OID" => integer().unwrap_or_else(as_text),
        "FLOAT4" | "FLOAT8" => real().unwrap_or_else(as_text),
        "NUMERIC" if digits <= EXACT_DIGITS => integer().or_else(real).unwrap_or_else(as_text),
        "NUMERIC" => integer().unwrap_or_else(as_text),
        "BYTEA" => {
            text.strip_prefix("\\x").and_then(|digits| hex::decode(digits).ok()).map_or_else(as_text, SqlValue::Blob)
        }
        _ => as_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestStore;

    #[test]
    fn a_value_is_as_narrow_as_it_is_exact() {
        let text = |text: &str| SqlValue::Text(text.to_owned());
        for (kind, written, expected) in [
            ("BOOL", "t", SqlValue::Boolean(true)),
            ("INT8", "-9223372036854775808", SqlValue::Integer(i64::MIN)),
            ("NUMERIC", "42", SqlValue::Integer(42)),
            ("NUMERIC", "0.10", SqlValue::Real(0.1)),
            ("NUMERIC", "1.5000000000000000", SqlValue::Real(1.5)),
            ("NUMERIC", "9223372036854775808", text("9223372036854775808")),
            ("NUMERIC", "0.12345678901234567", text("0.12345678901234567")),
            ("NUMERIC", "NaN", text("NaN")),
            ("FLOAT8", "-Infinity", text("-Infinity")),
            ("FLOAT4", "0.1", SqlValue::Real(0.1)),
            ("BYTEA", "\\x00ff", SqlValue::Blob(vec![0, 255])),
            ("BYTEA", "\\x", SqlValue::Blob(Vec::new())),
            ("INT4[]", "{1,2}", text("{1,2}")),
            ("?", "red", text("red")),
        ] {
            assert_eq!(read(kind, written), expected, "{kind} {written}");
        }
    }

    #[tokio::test]
    async fn every_type_of_postgresql_is_shown() {
        let store = TestStore::new().await;
        if !store.database.is_postgres() {
            return;
        }
        let text = |text: &str| SqlValue::Text(text.to_owned());
        for (expression, expected) in [
            ("(SELECT SUM(x) FROM (VALUES (1::bigint), (2)) AS t(x))", SqlValue::Integer(3)),
            ("(SELECT AVG(x) FROM (VALUES (1), (2)) AS t(x))", SqlValue::Real(1.5)),
            ("DATE '2026-11-28'", text("2026-11-28")),
            ("TIMESTAMP '2026-11-28 09:30:00'", text("2026-11-28 09:30:00")),
            ("TIMESTAMPTZ '2026-11-28 09:30:00+00' AT TIME ZONE 'UTC'", text("2026-11-28 09:30:00")),
            ("TIME '09:30'", text("09:30:00")),
            ("INTERVAL '1 day 2 hours'", text("1 day 02:00:00")),
            ("ARRAY[1, 2, NULL]", text("{1,2,NULL}")),
            ("ARRAY['a', 'b c']", text("{a,\"b c\"}")),
            ("'{\"b\": [1, null]}'::jsonb", text("{\"b\": [1, null]}")),
            ("'{\"b\":1}'::json", text("{\"b\":1}")),
            ("'\\x0201'::bytea", SqlValue::Blob(vec![2, 1])),
            ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
            ("1 = 1", SqlValue::Boolean(true)),
            ("NULL", SqlValue::Null),
            ("NULL::date", SqlValue::Null),
            ("7::smallint", SqlValue::Integer(7)),
            ("0.5::real", SqlValue::Real(0.5)),
            ("'x'::char(3)", text("x  ")),
            ("'10.0.0.0/8'::cidr", text("10.0.0.0/8")),
            ("int4range(1, 3)", text("[1,3)")),
            ("ROW(1, 'a')", text("(1,a)")),
            ("'rollouts'::regclass", text("rollouts")),
            ("current_schema()", SqlValue::Text(schema_of(&store).await)),
            ("('a'::tsvector)", text("'a'")),
            ("point(1, 2)", text("(1,2)")),
            ("B'101'", text("101")),
        ] {
            let found = store.queries().query_sql(&format!("SELECT {expression} AS x")).await;
            let found = found.unwrap_or_else(|error| panic!("{expression}: {error}"));
            assert_eq!((found.columns, found.rows), (vec!["x".to_owned()], vec![vec![expected]]), "{expression}");
        }
        store.queries().query_sql("SHOW server_version").await.unwrap();
        store.queries().query_sql("EXPLAIN SELECT * FROM rollouts").await.unwrap();
        store.queries().query_sql("SELECT * FROM rollouts").await.unwrap();
    }

    async fn schema_of(store: &TestStore) -> String {
        let row = sqlx::query("SELECT CAST(current_schema() AS TEXT) AS x");
        row.fetch_one(&mut *store.database().reader().await.unwrap()).await.unwrap().get("x")
    }

    #[tokio::test]
    async fn no_quotes_hide_a_second_statement() {
        let store = TestStore::new().await;
        if !store.database.is_postgres() {
            return;
        }
        store.issued_keys().await.unwrap();
        for text in [
            "SELECT E'\\' ' AS x; ROLLBACK; SELECT encode(secret, 'hex') FROM U&\"secret\\0073\"; -- '",
            "SELECT /* /* */ ' */ 1 AS x; ROLLBACK; SELECT 2; -- '",
        ] {
            let error = store.queries().query_sql(text).await.unwrap_err().to_string();
            assert!(error.contains("multiple commands") || error.contains("more than one"), "{error}");
        }
    }
}
