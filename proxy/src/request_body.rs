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

/// Fields that say how an answer is to be written, and not what it is.
const HOW_TO_ANSWER: [&str; 2] = ["stream", "stream_options"];

/// SHA-256 of a body, keys sorted, without how the answer is to be written.
pub(crate) fn digest(fields: &Map<String, Value>) -> String {
    let mut text = Vec::new();
    write_sorted(fields.iter().filter(|(key, _)| !HOW_TO_ANSWER.contains(&key.as_str())), &mut text);
    format!("{:x}", Sha256::digest(&text))
}

/// Writes an object's JSON with the keys of all objects in it sorted.
fn write_sorted<'f>(fields: impl Iterator<Item = (&'f String, &'f Value)>, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    out.push(b'{');
    for (place, (key, value)) in fields.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_plain(key, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => write_sorted(fields.iter(), out),
        Value::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        scalar => write_plain(scalar, out),
    }
}

/// Writes what holds no object.
fn write_plain(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    // Neither text nor a number can fail, nor can memory that is written to.
    let _ = serde_json::to_writer(out, value);
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
