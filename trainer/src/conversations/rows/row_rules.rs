//! Which rows of a file are read, and which of them stay together when they are divided.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use super::conversation::read_row;
use crate::UnusableRows;
use crate::options::DataOptions;

/// What becomes of the rows of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowRules {
    pub(crate) unusable: UnusableRows,
    /// Rows that are read at most, of those that can be trained.
    pub(crate) max_rows: Option<u64>,
    pub(crate) grouping: Grouping,
}

/// What rows have in common that stay together when a share is held out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Nothing is held out.
    #[default]
    None,
    /// The tokens before the first trained one.
    Prompt,
    /// A field of the row.
    Field(String),
}

/// What the rows of a file are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePart {
    /// They are trained, but for a share that may be scored.
    Trained,
    /// They are scored alone.
    Scored,
}

impl From<UnusableRows> for RowRules {
    fn from(unusable: UnusableRows) -> Self {
        Self { unusable, ..Self::default() }
    }
}

impl RowRules {
    /// What the config says of the rows of such a file.
    pub(crate) fn of(options: &DataOptions, part: FilePart) -> Self {
        let unusable = options.unusable_rows;
        if part == FilePart::Scored {
            return unusable.into();
        }
        let source = options.source.as_ref();
        let field = source.and_then(|source| source.validation_group.clone());
        let grouping = match (options.validation_share(), field) {
            (None, _) => Grouping::None,
            (Some(_), None) => Grouping::Prompt,
            (Some(_), Some(field)) => Grouping::Field(field),
        };
        Self { unusable, max_rows: source.and_then(|source| source.max_rows), grouping }
    }
}

/// Changes with the value of a field of a row.
pub(crate) fn field_digest(json: &[u8], name: &str) -> Result<u64, String> {
    let row: Map<String, Value> = read_row(json)?;
    let Some(value) = row.get(name).filter(|value| !value.is_null()) else {
        let fields: Vec<&str> = row.keys().map(String::as_str).collect();
        return Err(format!(
            "has no `{name}`, by which source.validation_group keeps rows together; its fields are `{}`",
            fields.join("`, `")
        ));
    };
    let mut digest = DefaultHasher::new();
    value.to_string().hash(&mut digest);
    Ok(digest.finish())
}
