use axum::body::Body;
use bytes::Bytes;
use fulgurite_api::BodyTooSlow;
use fulgurite_backends::{Notation, plain_words};
use fulgurite_types::with_long_numbers;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::ProxyError;

/// The bytes of a body, unless they are too many.
pub(crate) async fn read_body(body: Body, limit: usize) -> Result<Bytes, ProxyError> {
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

/// So deep in a body stand values that are handed on: schemas, and fields of messages. What is read as a number stands
/// higher.
pub(crate) const OF_VALUES: usize = 3;

/// A request body, which must be a JSON object. Long numbers in what is handed on keep their digits.
pub(crate) fn parse(body: &[u8]) -> Result<Map<String, Value>, ProxyError> {
    let invalid = |message: String| ProxyError::InvalidRequest { message, parameter: None, code: Some("invalid_json") };
    let spelled = with_long_numbers(body, OF_VALUES).and_then(|spelled| serde_json::from_slice(&spelled).ok());
    match spelled.map_or_else(|| serde_json::from_slice(body), Ok) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(invalid("the request body must be a JSON object".to_owned())),
        Err(_) if body.is_empty() => Err(invalid("the request body is empty, but must be a JSON object".to_owned())),
        Err(error) => {
            let words = plain_words(&error.to_string(), "", Notation::Json);
            Err(invalid(format!("the request body is not JSON: {words}")))
        }
    }
}

/// Takes those fields out of a body that a struct has; the error names the one at fault. The others stay as they are.
pub(crate) fn read_fields<T: DeserializeOwned>(body: &mut Map<String, Value>) -> Result<T, ProxyError> {
    serde_path_to_error::deserialize(OwnFields(body)).map_err(|error| {
        let path = error.path().to_string();
        let message = plain_words(&error.into_inner().to_string(), &path, Notation::Json);
        ProxyError::InvalidRequest { message, parameter: (path != ".").then_some(path), code: None }
    })
}

/// Gives a struct the fields that it has. `flatten` would do so too, but only after a copy of every field has been made
/// and looked through, and declarations of tools are long.
struct OwnFields<'b>(&'b mut Map<String, Value>);

impl<'de> Deserializer<'de> for OwnFields<'_> {
    type Error = serde_json::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let own = fields.iter().filter_map(|field| self.0.shift_remove_entry(*field)).collect();
        Value::Object(own).deserialize_struct(name, fields, visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        Value::Object(std::mem::take(self.0)).deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Fields that change how an answer is written, and not what it is.
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
    fn a_struct_takes_its_own_fields_and_leaves_the_others_in_their_order() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Own {
            a: Option<Vec<u32>>,
            b: Option<bool>,
            c: Option<u32>,
        }
        let read = |text: &str| {
            let mut body = parse(text.as_bytes()).unwrap();
            let own: Result<Own, _> = read_fields(&mut body);
            (own, Value::Object(body).to_string())
        };
        let (own, rest) = read(r#"{"z":{"a":1},"c":null,"a":[1,2],"y":0}"#);
        assert_eq!(own.unwrap(), Own { a: Some(vec![1, 2]), b: None, c: None });
        assert_eq!(rest, r#"{"z":{"a":1},"y":0}"#);
        let Err(ProxyError::InvalidRequest { parameter, .. }) = read(r#"{"a":[1,"2"]}"#).0 else {
            panic!("it is read")
        };
        assert_eq!(parameter.as_deref(), Some("a[1]"));
    }

    #[test]
    fn the_digest_sees_through_key_order_and_streaming() {
        let digest = |text: &str| digest(&parse(text.as_bytes()).unwrap());
        let plain = digest(r#"{"model":"m","messages":[]}"#);
        assert_eq!(plain, digest(r#"{"stream":true,"messages":[],"stream_options":null,"model":"m"}"#));
        assert_ne!(plain, digest(r#"{"model":"n","messages":[]}"#));
    }
}
