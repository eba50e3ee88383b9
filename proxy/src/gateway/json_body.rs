use fulgurite_backends::{Notation, plain_words};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::GatewayError;

/// Reads a body; errors name the place in it.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, GatewayError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let segments = error.path().iter().map(|segment| match segment {
            serde_path_to_error::Segment::Seq { index } => json!(index),
            other => json!(other.to_string()),
        });
        let place = std::iter::once(json!("body")).chain(segments).collect();
        let path = error.path().to_string();
        GatewayError::Unprocessable {
            place,
            message: plain_words(&error.into_inner().to_string(), &path, Notation::Json),
        }
    })
}
