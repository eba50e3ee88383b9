//! Numbers of JSON that no [`Value`] holds: integers beyond 64 bits, and floats with more digits than 64 bits have. In a
//! value such a number is an object of one field, [`FIELD`], with its text.

use serde_json::Value;

/// The field's name.
const FIELD: &str = "$number";
/// How the object is written.
const OPENED: &str = "{\"$number\":\"";
const CLOSED: &str = "\"}";
/// Digits that every float of 64 bits keeps.
const KEPT_DIGITS: usize = 17;

/// A JSON text whose long numbers from `depth` objects and lists inside on are objects with their texts, for a reader of
/// values; `None` of a text without any.
pub fn with_long_numbers(json: &[u8], depth: usize) -> Option<Vec<u8>> {
    if !may_hold_long_number(json) {
        return None;
    }
    let (mut out, mut copied, mut level, mut at) = (Vec::new(), 0, 0_usize, 0);
    while let Some(byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => level += 1,
            b'}' | b']' => level = level.saturating_sub(1),
            b'"' => {
                while let Some(byte) = json.get(at).filter(|byte| **byte != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                at += json[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                let number = std::str::from_utf8(&json[start..at]).unwrap_or_default();
                if level >= depth && is_long(number) {
                    out.extend_from_slice(&json[copied..start]);
                    out.extend([OPENED, number, CLOSED].iter().flat_map(|text| text.as_bytes()));
                    copied = at;
                }
            }
            _ => {}
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&json[copied..]);
    Some(out)
}

/// The JSON of a value, in which long numbers are numbers.
pub fn exact_json(value: &Value) -> String {
    without_objects(value.to_string())
}

/// A value of a JSON text, in which long numbers are kept.
///
/// # Errors
/// If the text is no JSON.
pub fn exact_value(json: &str) -> Result<Value, serde_json::Error> {
    match with_long_numbers(json.as_bytes(), 0) {
        Some(spelled) => serde_json::from_slice(&spelled).or_else(|_| serde_json::from_str(json)),
        None => serde_json::from_str(json),
    }
}

/// The text of a long number that a value is.
pub fn long_number(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get(FIELD)?.as_str().filter(|number| is_long(number))
}

/// JSON that was written compactly, in which long numbers are numbers again.
pub fn without_objects(json: String) -> String {
    let mut parts = json.split(OPENED);
    let mut exact = parts.next().unwrap_or_default().to_owned();
    if exact.len() == json.len() {
        return json;
    }
    // No string holds a quote, so that the beginning of such an object is never a string's.
    for part in parts {
        match part.split_once(CLOSED).filter(|(number, _)| is_long(number)) {
            Some((number, rest)) => exact.extend([number, rest]),
            None => exact.extend([OPENED, part]),
        }
    }
    exact
}

/// Whether a text holds a number that is worth a look.
fn may_hold_long_number(json: &[u8]) -> bool {
    json.split(|byte| !is_of_number(*byte)).any(|number| {
        let digits = number.iter().filter(|byte| byte.is_ascii_digit()).count();
        digits > KEPT_DIGITS || (digits > 3 && number.iter().any(|byte| matches!(byte, b'e' | b'E')))
    })
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Whether a text is a number that is not the same as a value.
fn is_long(number: &str) -> bool {
    if !is_number(number) {
        return false;
    }
    let is_integer = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    if is_integer {
        return number.parse::<i64>().is_err() && number.parse::<u64>().is_err();
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len() > KEPT_DIGITS || number.parse().is_ok_and(f64::is_infinite)
}

/// Whether a text is a number of JSON.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(left, right)| (left, Some(right)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(left, right)| (left, Some(right)));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const LONG: [&str; 6] = [
        "18446744073709551616",
        "-9223372036854775809",
        "100000000000000000000001",
        "0.12345678901234567890",
        "1234567890.12345678901e5",
        "1e400",
    ];

    #[test]
    fn long_numbers_keep_their_digits_through_a_value() {
        for number in LONG {
            let json = format!(r#"{{"a":[{number},"{number}",{{"b":-{number}}}],"c":{number}}}"#).replace("--", "");
            let value = exact_value(&json).unwrap();
            assert_eq!(long_number(&value["c"]), Some(number), "{number}");
            assert_eq!(value["a"][1], json!(number));
            assert_eq!(exact_json(&value), json);
        }
    }

    #[test]
    fn other_numbers_are_values_and_shallow_ones_stay() {
        for json in ["[18446744073709551615,-9223372036854775808,0.1,1e22,1.5e-300,12345678901234567.0]", "[]", "1", ""]
        {
            assert_eq!(with_long_numbers(json.as_bytes(), 0), None, "{json}");
        }
        let json = br#"{"seed":18446744073709551616,"tools":[{"n":18446744073709551616}]}"#;
        let spelled = with_long_numbers(json, 3).unwrap();
        assert_eq!(
            String::from_utf8(spelled).unwrap(),
            r#"{"seed":18446744073709551616,"tools":[{"n":{"$number":"18446744073709551616"}}]}"#
        );
    }

    #[test]
    fn what_only_looks_like_a_long_number_stays() {
        for value in
            [json!({ "$number": "1" }), json!({ "$number": "x\"}" }), json!("{\"$number\":\"18446744073709551616\"}")]
        {
            assert_eq!(exact_json(&value), value.to_string());
            assert_eq!(long_number(&value), None);
        }
        for broken in
            ["018446744073709551616", "[18446744073709551616-]", "18446744073709551616.", "{18446744073709551616"]
        {
            assert!(exact_value(broken).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}\",:0-9.eE+-]{0,80}") {
            let _ = with_long_numbers(&bytes, 0);
            if let Ok(value) = exact_value(&text) {
                prop_assert_eq!(exact_value(&exact_json(&value)).unwrap(), value);
            }
        }
    }
}
