//! Reading bodies and parameters, with errors that say where the mistake is.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Query, Request};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::Segment;

use super::error::{Mistake, RestError};
use crate::model::{Object, Page, SortOrder};

/// A body as JSON; an empty one is null.
pub(super) struct Body(pub Value);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RestError> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let message = rejection.body_text();
            match rejection.into_response().status() {
                StatusCode::PAYLOAD_TOO_LARGE => RestError::TooLarge,
                _ => RestError::BadRequest(message),
            }
        })?;
        if bytes.is_empty() {
            return Ok(Self(Value::Null));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            RestError::from(Mistake {
                kind: "json_invalid",
                location: vec![json!(error.column())],
                message: format!("JSON decode error: {error}"),
                input: json!({}),
            })
        })
    }
}

impl Body {
    /// The body as `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RestError> {
        parse(&self.0)
    }

    /// The body as `T`, which has defaults for everything; null is all defaults.
    pub fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, RestError> {
        if self.0.is_null() { Ok(T::default()) } else { self.parse() }
    }

    /// The body as an object.
    pub fn object(self) -> Result<Object, RestError> {
        match self.0 {
            Value::Object(object) => Ok(object),
            input => Err(RestError::from(Mistake {
                kind: "dict_type",
                location: Vec::new(),
                message: "Input should be a valid dictionary".into(),
                input,
            })),
        }
    }
}

fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, RestError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut location: Vec<Value> = error.path().iter().filter_map(segment).collect();
        let input = location.iter().try_fold(value, |value, step| match step {
            Value::Number(index) => value.get(usize::try_from(index.as_u64()?).ok()?),
            step => value.get(step.as_str()?),
        });
        let input = input.cloned().unwrap_or_default();
        let message = error.into_inner().to_string();
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        if let Some(field) = missing {
            location.push(json!(field));
            return RestError::from(Mistake { kind: "missing", location, message: "Field required".into(), input });
        }
        let kind = if message.starts_with("unknown variant") { "literal_error" } else { "value_error" };
        RestError::from(Mistake { kind, location, message, input })
    })
}

fn segment(segment: &Segment) -> Option<Value> {
    match segment {
        Segment::Seq { index } => Some(json!(index)),
        Segment::Map { key } => Some(json!(key)),
        Segment::Enum { variant } => Some(json!(variant)),
        Segment::Unknown => None,
    }
}

/// Query parameters in the form of the body that the search route of the same list takes: what ends in `_in` may be
/// repeated, and whole numbers are numbers.
pub(super) fn parameters<T: DeserializeOwned>(Query(pairs): Query<Vec<(String, String)>>) -> Result<T, RestError> {
    let mut body = Object::new();
    for (key, text) in pairs {
        if key.ends_with("_in") {
            let list = body.entry(key).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(json!(text));
            }
        } else {
            let number = matches!(&*key, "limit" | "offset" | "step").then(|| text.parse::<i64>().ok()).flatten();
            body.insert(key, number.map_or(json!(text), |number| json!(number)));
        }
    }
    parse(&Value::Object(body))
}

/// A field of an update: absent, null, or a value.
pub(super) fn field<T: DeserializeOwned>(object: &Object, key: &'static str) -> Result<Option<Option<T>>, RestError> {
    let Some(value) = object.get(key) else { return Ok(None) };
    let result = serde_path_to_error::deserialize::<_, Option<T>>(value);
    result.map(Some).map_err(|error| {
        let path = error.path().iter().filter_map(segment);
        RestError::from(Mistake {
            kind: "value_error",
            location: std::iter::once(json!(key)).chain(path).collect(),
            message: error.inner().to_string(),
            input: value.clone(),
        })
    })
}

/// A field of an update that may be absent, but not null.
pub(super) fn value_field<T: DeserializeOwned>(object: &Object, key: &'static str) -> Result<Option<T>, RestError> {
    match field(object, key)? {
        None => Ok(None),
        Some(Some(value)) => Ok(Some(value)),
        Some(None) => Err(RestError::BadRequest(format!("{key} is invalid; it cannot be a null value."))),
    }
}

/// The part of a list that a request asks for.
#[derive(Deserialize)]
#[serde(default)]
pub(super) struct Paging {
    limit: i64,
    offset: i64,
    sort_by: Option<String>,
    sort_order: Option<SortOrder>,
}

impl Default for Paging {
    fn default() -> Self {
        Self { limit: -1, offset: 0, sort_by: None, sort_order: None }
    }
}

impl Paging {
    /// The part, if it makes sense.
    pub fn page(self) -> Result<Page, RestError> {
        let limit = match self.limit {
            -1 => None,
            limit => Some(
                u64::try_from(limit)
                    .ok()
                    .filter(|limit| *limit > 0)
                    .ok_or_else(|| RestError::BadRequest("Limit must be greater than 0 or -1 for no limit".into()))?,
            ),
        };
        let offset = u64::try_from(self.offset)
            .map_err(|_| RestError::BadRequest("Offset must be greater than or equal to 0".into()))?;
        Ok(Page { limit, offset, sort_by: self.sort_by, sort_order: self.sort_order })
    }
}

/// Seconds as a duration; what is below 0 is 0.
pub(super) fn seconds(field: &'static str, seconds: f64) -> Result<Duration, RestError> {
    Duration::try_from_secs_f64(seconds.max(0.0)).map_err(|error| {
        RestError::from(Mistake {
            kind: "value_error",
            location: vec![json!(field)],
            message: error.to_string(),
            input: json!(seconds),
        })
    })
}
