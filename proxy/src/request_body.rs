use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use fulgurite_store::BodyTooSlow;

use crate::Proxy;
use crate::error::ProxyError;

/// The bytes of a body, unless they are too many.
pub(crate) async fn read_body(body: Body, proxy: &Proxy) -> Result<Bytes, ProxyError> {
    let limit = proxy.shared.options.body_limit;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ProxyError::BodyTooLarge { limit }),
        Err(error) => match BodyTooSlow::cause_of(&*error) {
            Some(slow) => Err(slow.into()),
            None => Err(ProxyError::InvalidRequest {
                message: format!("the request body could not be read: {error}"),
                parameter: None,
                code: None,
            }),
        },
    }
}

/// A request body, which must be a JSON object.
pub(crate) fn parse(body: &[u8]) -> Result<Map<String, Value>, ProxyError> {
    let invalid = |message: String| ProxyError::InvalidRequest { message, parameter: None, code: Some("invalid_json") };
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(invalid("the request body must be a JSON object".to_owned())),
        Err(error) => Err(invalid(format!("the request body is not JSON: {error}"))),
    }
}

/// Reads fields of a body; the error names the one at fault.
pub(crate) fn read_fields<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, ProxyError> {
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let message = if path == "." { inner.to_string() } else { format!("{path}: {inner}") };
        ProxyError::InvalidRequest { message, parameter: (path != ".").then_some(path), code: None }
    })
}

/// SHA-256 of a body, keys sorted, without how the answer is to be written.
pub(crate) fn digest(fields: &Map<String, Value>) -> String {
    let mut body = Value::Object(fields.clone());
    if let Some(object) = body.as_object_mut() {
        object.remove("stream");
        object.remove("stream_options");
    }
    body.sort_all_objects();
    let digest = Sha256::digest(body.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_sees_through_key_order_and_streaming() {
        let digest = |text: &str| digest(&parse(text.as_bytes()).unwrap());
        let plain = digest(r#"{"model":"m","messages":[]}"#);
        assert_eq!(plain, digest(r#"{"stream":true,"messages":[],"stream_options":null,"model":"m"}"#));
        assert_ne!(plain, digest(r#"{"model":"n","messages":[]}"#));
    }
}
