//! Values of a SQL query.

use fulgurite_store::{SqlRows, SqlValue};
use serde_json::{Map, Value, json};

/// The rows of a query as objects.
pub fn rows_json(rows: SqlRows) -> impl Iterator<Item = Value> {
    let SqlRows { columns, rows } = rows;
    rows.into_iter().map(move |row| {
        let fields = columns.iter().zip(row).map(|(name, value)| (name.clone(), value_json(name, value)));
        Value::Object(fields.collect::<Map<_, _>>())
    })
}

/// A value as text.
pub fn value_text(value: SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Boolean(value) => value.to_string(),
        SqlValue::Integer(value) => value.to_string(),
        SqlValue::Real(value) => value.to_string(),
        SqlValue::Text(text) => text,
        SqlValue::Blob(bytes) => hex::encode(bytes),
    }
}

/// A value as JSON. The columns of a generation that hold tokens and logprobs become lists.
fn value_json(column: &str, value: SqlValue) -> Value {
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
            _ => json!(hex::encode(bytes)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_become_lists_and_other_bytes_hexadecimal() {
        let bytes = |bytes: &[u8]| SqlValue::Blob(bytes.to_vec());
        assert_eq!(value_json("sampled_tokens", bytes(&[2, 1, 0, 0])), json!([258]));
        assert_eq!(value_json("logprobs", bytes(&(-0.5f32).to_le_bytes())), json!([-0.5]));
        assert_eq!(value_json("sampled_tokens", bytes(&[2, 1])), json!("0201"));
        assert_eq!(value_json("context_hash", bytes(&[2, 1, 0, 0])), json!("02010000"));
        assert_eq!(value_text(bytes(&[255])), "ff");
    }
}
