use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What a call is where a mark stands that would end it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    /// A call; `pieces` of the JSON text of its arguments have not left yet.
    Whole { pieces: String, arguments: Value },
    /// A text of the arguments has begun and not ended: the mark may stand in it. If it does not, this is wrong.
    InText(String),
    /// This is wrong.
    Broken(String),
}

impl From<Result<Value, String>> for Ended {
    fn from(arguments: Result<Value, String>) -> Self {
        match arguments {
            Ok(arguments) => Self::Whole { pieces: String::new(), arguments },
            Err(error) => Self::Broken(error),
        }
    }
}

/// Arguments that are written one by one, and the JSON text that they are to leave as.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenArguments {
    arguments: Map<String, Value>,
    /// Text that has not left yet.
    pieces: String,
}

impl WrittenArguments {
    /// Adds an argument by the JSON text of its value.
    pub(crate) fn push(&mut self, key: &str, json: &str) -> Result<(), String> {
        if self.arguments.contains_key(key) {
            return Err(format!("the argument `{key}` stands there twice"));
        }
        let value = read_json(json).map_err(|error| format!("the argument `{key}` is not JSON: {error}"))?;
        self.pieces.push_str(if self.arguments.is_empty() { "{" } else { ", " });
        self.pieces.push_str(&format!("{}: {}", Value::from(key), json.trim()));
        self.arguments.insert(key.to_owned(), value);
        Ok(())
    }

    /// The text that has not left yet, which now leaves.
    pub(crate) fn take_pieces(&mut self) -> String {
        std::mem::take(&mut self.pieces)
    }

    /// The call whose arguments these are, with one more.
    pub(crate) fn end_with(mut self, key: &str, json: &str) -> Ended {
        match self.push(key, json) {
            Ok(()) => self.end(),
            Err(error) => Ended::Broken(error),
        }
    }

    /// Ends the text: these are all.
    pub(crate) fn close(&mut self) {
        self.pieces.push_str(if self.arguments.is_empty() { "{}" } else { "}" });
    }

    /// The call whose arguments these are, all of them.
    pub(crate) fn end(mut self) -> Ended {
        self.close();
        self.closed()
    }

    /// The call whose arguments these are, whose text has ended.
    pub(crate) fn closed(self) -> Ended {
        Ended::Whole { pieces: self.pieces, arguments: self.arguments.into() }
    }
}

/// JSON, in which no object has a key twice.
pub(crate) fn read_json(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match serde_json::Deserializer::from_str(text).deserialize_any(UniqueKeys) {
        Err(error) if error.to_string().starts_with(TWICE) => {
            let message = error.to_string();
            Err(message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned()))
        }
        _ => Ok(value),
    }
}

/// How the error begins that says of a key that an object has it twice.
const TWICE: &str = "a key stands there twice: ";

/// Looks whether each key of an object is there once.
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            fields.next_value_seed(Self)?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("{TWICE}`{key}`")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_each_key_once() {
        for (text, key) in [("{\"a\": 1, \"a\": 2}", "a"), ("[{\"b\": {\"c\": 1e3, \"\\u0063\": \"\"}}]", "c")] {
            assert_eq!(read_json(text), Err(format!("{TWICE}`{key}`")));
        }
        let long = "{\"a\": 123456789012345678901234567890, \"b\": {\"a\": [null, true, 1.5, -1]}}";
        assert_eq!(read_json(long).unwrap(), serde_json::from_str::<Value>(long).unwrap());
        assert!(read_json("{").unwrap_err().starts_with("EOF"));
    }
}
