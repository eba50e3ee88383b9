//! Serde's messages about a value, for people.

/// Serde's message about a value as a phrase to stand behind the value's place: what was found, and what should be there,
/// without the names of Rust types. Other messages stay as they are.
pub(crate) fn found_and_expected(message: &str) -> String {
    if message.starts_with("EOF while parsing") {
        return "it ends too early".to_owned();
    }
    if message == "invalid digit found in string" {
        return "a text where a whole number should be".to_owned();
    }
    let values = ["invalid type: ", "invalid value: "].iter().find_map(|kind| message.strip_prefix(kind));
    let Some((found, expected)) = values.and_then(|values| values.split_once(", expected ")) else {
        return message.to_owned();
    };
    let (kind, number) = found.split_once(' ').unwrap_or_default();
    let is_number = matches!((kind, number), ("integer" | "floating", number) if !number.contains('-'));
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => {
            if is_number {
                return format!("{} is too large", number.trim_start_matches("point ").trim_matches('`'));
            }
            "a whole number"
        }
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        object if object.starts_with("struct ") => "an object",
        other => other,
    };
    let found = match found {
        "map" => "an object",
        "sequence" => "a list",
        other => other,
    };
    format!("{found} where {expected} should be")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serdes_words_are_told_without_the_names_of_types() {
        for (message, expected) in [
            ("invalid value: integer `8589934592`, expected u32", "8589934592 is too large"),
            ("invalid type: floating point `1e+30`, expected u64", "1e+30 is too large"),
            ("invalid value: integer `-1`, expected u64", "integer `-1` where a whole number should be"),
            ("invalid type: integer `5`, expected a sequence", "integer `5` where a list should be"),
            ("invalid type: sequence, expected struct Span", "a list where an object should be"),
            ("invalid type: map, expected f64", "an object where a number should be"),
            ("EOF while parsing an object at line 1 column 1", "it ends too early"),
            ("invalid digit found in string", "a text where a whole number should be"),
            ("it is no colour", "it is no colour"),
        ] {
            assert_eq!(found_and_expected(message), expected);
        }
    }
}
