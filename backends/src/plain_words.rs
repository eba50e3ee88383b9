use fulgurite_types::nearest_name;

/// How the text that a mistake stands in writes a table of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// As a table.
    Toml,
    /// As an object.
    Json,
}

/// serde's error about a text, in terms of that text and not of this program's types.
///
/// `place` is the path of what is wrong (`runner.parallel`); empty or `.` is the whole. Words that are not serde's own, as
/// those of a syntax error, stay as they are, after the place if there is one.
pub fn plain_words(message: &str, place: &str, notation: Notation) -> String {
    let (message, position) = split_position(message);
    let place = if place == "." { "" } else { place };
    let subject = if place.is_empty() { "it" } else { place };
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|kind| between(message, kind, ", expected "));
    let plain = if let Some((found, expected)) = wrong {
        invalid_value(subject, found, expected, notation)
    } else if let Some((length, expected)) = between(message, "invalid length ", ", expected ") {
        match expected_words(expected, notation) {
            fields if fields == table(notation) => format!("{subject} is a list, but must be {fields}"),
            expected => format!("{subject} has {length} elements, but must be {expected}"),
        }
    } else if let Some(expected) = message.strip_prefix("wanted ") {
        format!("{subject} must be {}", expected_words(expected, notation))
    } else if message.starts_with("EOF while parsing") {
        format!("{subject} ends too early")
    } else if message.ends_with("invalid digit found in string") {
        format!("{} must be a whole number", message.rsplit_once(": ").map_or(subject, |(place, _)| place))
    } else if message.starts_with("data did not match any variant of untagged enum")
        || (message.starts_with("no variant of enum ") && message.ends_with(" found in flattened data"))
    {
        format!("{subject} has none of the forms that it may have")
    } else if let Some((kind, names)) = unknown_name(message) {
        names_words(kind, &names, place)
    } else if let Some(key) = quoted(message, "missing field ").first() {
        if place.is_empty() {
            format!("`{key}` is missing")
        } else {
            format!("{place} needs `{key}`, which is missing")
        }
    } else if let Some(key) = quoted(message, "duplicate field ").first() {
        format!("`{key}` is there twice")
    } else if place.is_empty() {
        message.to_owned()
    } else {
        format!("{place}: {message}")
    };
    plain + position
}

/// Cuts off ` at line 1 column 5`; a column 0 is before the text, and no place in it.
fn split_position(message: &str) -> (&str, &str) {
    let (text, position) = message.rfind(" at line ").map_or((message, ""), |start| message.split_at(start));
    (text, if position.ends_with(" column 0") { "" } else { position })
}

fn between<'m>(message: &'m str, before: &str, middle: &str) -> Option<(&'m str, &'m str)> {
    message.strip_prefix(before)?.split_once(middle)
}

/// What stands between backticks in a message that begins so.
fn quoted<'m>(message: &'m str, beginning: &str) -> Vec<&'m str> {
    let rest = message.strip_prefix(beginning).unwrap_or_default();
    rest.split('`').skip(1).step_by(2).collect()
}

#[derive(Clone, Copy)]
enum Name {
    Key,
    Value,
}

/// The unknown name and then the known ones.
fn unknown_name(message: &str) -> Option<(Name, Vec<&str>)> {
    [("unknown field ", Name::Key), ("unknown variant ", Name::Value)].into_iter().find_map(|(beginning, kind)| {
        let names = quoted(message, beginning);
        (!names.is_empty()).then_some((kind, names))
    })
}

fn names_words(kind: Name, names: &[&str], place: &str) -> String {
    let (unknown, known) = (names.first().copied().unwrap_or_default(), names.get(1..).unwrap_or_default());
    // The place of an unknown key may end with the key itself.
    let table = place.strip_suffix(unknown).map_or(place, |table| table.trim_end_matches('.'));
    let plain = match kind {
        Name::Key if table.is_empty() => format!("there is no key `{unknown}`"),
        Name::Key => format!("{table} has no key `{unknown}`"),
        Name::Value => format!("{} cannot be `{unknown}`", if place.is_empty() { "it" } else { place }),
    };
    match nearest_name(unknown, known) {
        Some(nearest) => format!("{plain}; did you mean `{nearest}`?"),
        None if known.is_empty() => plain,
        None => format!("{plain}; there is `{}`", known.join("`, `")),
    }
}

fn invalid_value(subject: &str, found: &str, expected: &str, notation: Notation) -> String {
    let number = found.strip_prefix("integer ").map(bare);
    match number {
        Some(number) if !number.starts_with('-') && is_number(expected) => {
            format!("{subject} is {number}, which is too large")
        }
        _ => {
            let (found, expected) = (found_words(found, notation), expected_words(expected, notation));
            format!("{subject} is {found}, but must be {expected}")
        }
    }
}

/// What was found: ``integer `5` `` is 5.
fn found_words(found: &str, notation: Notation) -> String {
    for kind in ["integer ", "floating point ", "boolean ", "string ", "character "] {
        if let Some(value) = found.strip_prefix(kind) {
            return bare(value).to_owned();
        }
    }
    match found {
        "map" | "struct" | "enum" | "struct variant" => table(notation),
        "sequence" | "tuple" | "tuple struct" => "a list",
        "unit value" | "null" | "Option value" => "null",
        other => other,
    }
    .to_owned()
}

/// A number without what serde puts around it: `` `5` `` and `` `5` as i128 `` are 5.
fn bare(number: &str) -> &str {
    number.trim_end_matches(" as i128").trim_end_matches(" as u128").trim_matches('`')
}

/// Whether it is a type of numbers by its name, as `u32` is.
fn is_number(expected: &str) -> bool {
    let Some(width) = expected.strip_prefix(['u', 'i', 'f']) else { return false };
    width == "size" || (!width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What must be there.
fn expected_words(expected: &str, notation: Notation) -> String {
    if is_number(expected) {
        return match expected.as_bytes()[0] {
            b'u' => "a whole number, 0 or more",
            b'i' => "a whole number",
            _ => "a number",
        }
        .to_owned();
    }
    if expected.starts_with("a nonzero ") {
        return "a whole number, 1 or more".to_owned();
    }
    if let Some(length) = ["an array of length ", "a tuple of size "].iter().find_map(|it| expected.strip_prefix(it)) {
        return format!("a list of {length}");
    }
    match expected {
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => table(notation),
        "path string" | "a borrowed string" | "string or map" | "string or table" | "variant identifier" => "a string",
        "unit" => "null",
        known if ["struct ", "tuple struct ", "internally tagged "].iter().any(|it| known.starts_with(it)) => {
            table(notation)
        }
        known if known.starts_with("enum ") => "a string",
        other => other.strip_prefix("expected ").unwrap_or(other),
    }
    .to_owned()
}

fn table(notation: Notation) -> &'static str {
    match notation {
        Notation::Toml => "a table",
        Notation::Json => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is only read")]
    struct Mine {
        count: usize,
        share: f32,
        pair: [i64; 2],
        kind: Kind,
        path: PathBuf,
        #[serde(default)]
        either: Option<Either>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Good,
        Bad,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "it is only read")]
    enum Either {
        One(String),
        Many(Vec<String>),
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is only read")]
    struct Flattened {
        version: u64,
        #[serde(flatten)]
        kind: Kind,
    }

    fn described<T: DeserializeOwned + std::fmt::Debug>(json: &str, place: &str) -> String {
        let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
        split_position(&plain_words(&error, place, Notation::Json)).0.to_owned()
    }

    #[test]
    fn mistakes_are_told_of_the_text() {
        assert_eq!(described::<usize>("-1", "a.b"), "a.b is -1, but must be a whole number, 0 or more");
        assert_eq!(described::<u8>("300", "a.b"), "a.b is 300, which is too large");
        assert_eq!(described::<usize>("1.5", "n"), "n is 1.5, but must be a whole number, 0 or more");
        assert_eq!(described::<f64>("\"often\"", "n"), "n is \"often\", but must be a number");
        assert_eq!(described::<bool>("{}", ""), "it is an object, but must be true or false");
        assert_eq!(described::<Vec<u32>>("true", "."), "it is true, but must be a list");
        assert_eq!(described::<BTreeMap<String, u32>>("[]", "m"), "m is a list, but must be an object");
        assert_eq!(described::<[i64; 2]>("[1]", "m"), "m has 1 elements, but must be a list of 2");
        assert_eq!(described::<PathBuf>("null", "m"), "m is null, but must be a string");
        assert_eq!(described::<Either>("1", "stop"), "stop has none of the forms that it may have");
        assert_eq!(described::<Kind>("\"god\"", "kind"), "kind cannot be `god`; did you mean `good`?");
        assert_eq!(described::<Kind>("\"xyz\"", "kind"), "kind cannot be `xyz`; there is `good`, `bad`");
        assert!(!described::<Kind>("3", "kind").contains("enum"));
        assert_eq!(described::<Mine>("3", ""), "it is 3, but must be an object");
        assert_eq!(described::<Mine>("{\"cuont\": 1}", "a.cuont"), "a has no key `cuont`; did you mean `count`?");
        assert_eq!(described::<Mine>("{\"cuont\": 1}", ""), "there is no key `cuont`; did you mean `count`?");
        assert_eq!(described::<Mine>("{}", "models[0]"), "models[0] needs `count`, which is missing");
        assert_eq!(described::<Mine>("{\"count\": 1, \"count\": 2}", ""), "`count` is there twice");
        assert_eq!(described::<Mine>("[]", "m"), "m is a list, but must be an object");
        assert_eq!(described::<Flattened>("{\"version\": 1}", ""), "it has none of the forms that it may have");
        assert_eq!(described::<Mine>("{\"count\": ", "it"), "it ends too early");
        assert_eq!(described::<Mine>("", ""), "it ends too early");
    }

    #[test]
    fn what_toml_and_queries_say_is_told_of_the_text_too() {
        let of_toml = |message: &str| plain_words(message, "a.b", Notation::Toml);
        assert_eq!(of_toml("wanted string or table"), "a.b must be a string");
        let large = "invalid type: integer `99999999999999999999` as i128, expected u64";
        assert_eq!(of_toml(large), "a.b is 99999999999999999999, which is too large");
        let query = plain_words("limit: invalid digit found in string", "", Notation::Json);
        assert_eq!(query, "limit must be a whole number");
        let value = plain_words("invalid type: map, expected a sequence at line 1 column 0", "", Notation::Json);
        assert_eq!(value, "it is an object, but must be a list");
    }

    #[test]
    fn other_words_stay_and_so_does_the_position() {
        assert_eq!(plain_words("unclosed table, expected `]`", "", Notation::Toml), "unclosed table, expected `]`");
        assert_eq!(plain_words("\"gpu\" is no device", "a.b", Notation::Toml), "a.b: \"gpu\" is no device");
        let plain = plain_words("invalid type: map, expected a string at line 1 column 2", "x", Notation::Json);
        assert_eq!(plain, "x is an object, but must be a string at line 1 column 2");
    }
}
