//! `fulgurite sql`.

use anyhow::{Context, Result};
use fulgurite_store::{SqlRows, SqlValue};
use serde_json::{Map, Value, json};

use super::arguments::SqlArguments;
use super::open;
use crate::terminal::output;
use crate::terminal::table::{Columns, cut};

/// Prints what a query gives.
pub async fn sql(arguments: SqlArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let SqlRows { columns, rows } = store.query_sql(&arguments.query).await.context("the query failed")?;
    if arguments.json {
        for row in rows {
            let fields: Map<String, Value> =
                columns.iter().zip(row).map(|(name, value)| (name.clone(), json_value(name, value))).collect();
            output::line(Value::Object(fields));
        }
        return Ok(());
    }
    if columns.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Columns::new(&names);
    for row in rows {
        table.push(row.into_iter().map(cell).collect());
    }
    table.print();
    Ok(())
}

fn cell(value: SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Boolean(value) => value.to_string(),
        SqlValue::Integer(value) => value.to_string(),
        SqlValue::Real(value) => value.to_string(),
        SqlValue::Text(text) => cut(&text),
        SqlValue::Blob(bytes) => cut(&hexadecimal(&bytes)),
    }
}

/// A value as JSON. The columns of a generation that hold tokens and logprobs become lists.
fn json_value(column: &str, value: SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Boolean(value) => json!(value),
        SqlValue::Integer(value) => json!(value),
        SqlValue::Real(value) => json!(value),
        SqlValue::Text(text) => json!(text),
        SqlValue::Blob(bytes) => match (column, bytes.as_chunks::<4>()) {
            ("prompt_tokens" | "sampled_tokens", (words, [])) => {
                json!(words.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>())
            }
            ("logprobs", (words, [])) => {
                json!(words.iter().map(|word| f32::from_le_bytes(*word)).collect::<Vec<_>>())
            }
            _ => json!(hexadecimal(&bytes)),
        },
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_become_lists_and_other_bytes_hexadecimal() {
        let bytes = |bytes: &[u8]| SqlValue::Blob(bytes.to_vec());
        assert_eq!(json_value("sampled_tokens", bytes(&[2, 1, 0, 0])), json!([258]));
        assert_eq!(json_value("logprobs", bytes(&(-0.5f32).to_le_bytes())), json!([-0.5]));
        assert_eq!(json_value("sampled_tokens", bytes(&[2, 1])), json!("0201"));
        assert_eq!(json_value("context_hash", bytes(&[2, 1, 0, 0])), json!("02010000"));
        assert_eq!(cell(bytes(&[255])), "ff");
    }
}
