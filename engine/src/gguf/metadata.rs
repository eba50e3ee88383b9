//! The names and values that stand at a GGUF file's beginning.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::EngineError;

/// A value; integers of all widths are one kind, and so are floats.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetadataValue {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

/// All of a file's, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metadata {
    pub(super) values: BTreeMap<String, MetadataValue>,
}

impl Metadata {
    pub(super) fn put(&mut self, name: impl Into<String>, value: MetadataValue) {
        self.values.insert(name.into(), value);
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> Option<&[String]> {
        match self.values.get(name)? {
            MetadataValue::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(super) fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.values.get(name)? {
            MetadataValue::Integers(numbers) => Some(numbers),
            _ => None,
        }
    }

    pub(super) fn bool(&self, name: &str) -> Option<bool> {
        match self.values.get(name)? {
            MetadataValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A count or an id. A list of one number again and again, as some have for layers, is that number.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let number = match self.values.get(name)? {
            MetadataValue::Integer(number) => *number,
            MetadataValue::Integers(numbers) => {
                let first = *numbers.first()?;
                numbers.iter().all(|number| *number == first).then_some(first)?
            }
            _ => return None,
        };
        usize::try_from(number).ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name)? {
            MetadataValue::Float(number) => Some(*number),
            MetadataValue::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// What `found` gives, or a refusal that names the key.
    pub(super) fn needed<T>(&self, path: &Path, name: &str, found: Option<T>) -> Result<T, EngineError> {
        found.ok_or_else(|| {
            let how = if self.values.contains_key(name) { "is not what is expected there" } else { "is missing" };
            EngineError::Malformed { path: path.to_path_buf(), message: format!("{name} {how}") }
        })
    }
}
