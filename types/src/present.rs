use serde::{Deserialize, Deserializer};

/// Reads a field that must be present, though it may be null (serde takes a missing `Option` or `Value` for null).
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(deserializer)
}
