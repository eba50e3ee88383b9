//! Reading paths, parameters and bodies, with errors that say where every mistake is.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, StatusCode};
use axum::response::IntoResponse;
use fulgurite_store::{KeyHolder, Sender};
use fulgurite_types::{Object, Page, Repeat, SortOrder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_path_to_error::Segment;

use super::error::{Mistake, RestError};
use super::found_and_expected::found_and_expected;
use super::refused::BodyTooSlow;
use super::replaced::mended;
use super::shape::{Field, Shape, Shaped};
use super::turns::{Queue, Turn};

/// Characters that an `Idempotency-Key` may have.
const LONGEST_IDEMPOTENCY_KEY: usize = 255;

/// What the variable parts of a path hold.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path)).map_err(|error| RestError::BadRequest(error.body_text()))
    }
}

/// Who sends a request, by its key.
pub struct SentBy(pub Sender);

impl<S: Send + Sync> FromRequestParts<S> for SentBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(sender(&parts.extensions)))
    }
}

/// Who sends a request with these extensions, where the key's holder stands if a key opened it.
pub fn sender(extensions: &Extensions) -> Sender {
    Sender::Client(extensions.get::<KeyHolder>().cloned())
}

/// Who bears the request's key, if it came with one that opens anything.
pub struct Holder(Option<KeyHolder>);

impl<S: Send + Sync> FromRequestParts<S> for Holder {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

impl Holder {
    /// Refuses a worker's key that is of other workers than this one.
    ///
    /// # Errors
    /// 403 if it is.
    pub fn check_worker(&self, worker_id: Option<&str>) -> Result<(), RestError> {
        let checked = self.0.as_ref().map_or(Ok(()), |holder| holder.check_worker(worker_id));
        checked.map_err(|refused| RestError::Refused(refused.into()))
    }

    /// The worker whose key it is.
    pub fn worker(&self) -> Option<&str> {
        match &self.0 {
            Some(KeyHolder::Worker { name }) => Some(name),
            _ => None,
        }
    }
}

/// How a request may be the repetition of an earlier one: by its `Idempotency-Key`, or as client libraries count their
/// tries.
pub struct Repeats(pub Repeat);

impl<S: Send + Sync> FromRequestParts<S> for Repeats {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, RestError> {
        let mut keys = parts.headers.get_all("idempotency-key").iter();
        if let Some(first) = keys.next() {
            let key = first.to_str().ok().filter(|key| !key.is_empty() && key.len() <= LONGEST_IDEMPOTENCY_KEY);
            return match key.filter(|_| keys.all(|other| other == first)) {
                Some(key) => Ok(Self(Repeat::Key(key.to_owned()))),
                None => Err(RestError::BadRequest(format!(
                    "Idempotency-Key must be one text of 1 to {LONGEST_IDEMPOTENCY_KEY} visible ASCII characters"
                ))),
            };
        }
        let tries = parts.headers.get("x-stainless-retry-count").and_then(|count| count.to_str().ok()?.parse().ok());
        Ok(Self(if tries.unwrap_or(0_u32) > 0 { Repeat::Retry } else { Repeat::New }))
    }
}

/// A body of JSON, whose turn it is to be read; an empty one is null.
pub struct Body {
    bytes: Bytes,
    turn: Turn,
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RestError> {
        let queue = Queue::of(request.extensions());
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            if let Some(slow) = BodyTooSlow::cause_of(&rejection) {
                return RestError::TooSlow(slow);
            }
            let message = rejection.body_text();
            match rejection.into_response().status() {
                StatusCode::PAYLOAD_TOO_LARGE => RestError::TooLarge,
                _ => RestError::BadRequest(message),
            }
        })?;
        let turn = queue.turn(bytes.len()).await?;
        let bytes = turn.work(|| mended(bytes));
        Ok(Self { bytes, turn })
    }
}

/// Says what is not JSON and where, as Python does as far as it can be told.
fn not_json(bytes: &[u8], error: &serde_json::Error) -> Mistake {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let before: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
    let mut position = (before + error.column()).min(bytes.len());
    let no_value = matches!(message, "expected ident" | "expected value" | "EOF while parsing a value");
    if no_value {
        // Where the word begins, of which the parser has read some.
        position = position.saturating_sub(usize::from(!error.is_eof()));
        while position > 0 && bytes.get(position - 1).is_some_and(u8::is_ascii_alphabetic) {
            position -= 1;
        }
    }
    Mistake {
        location: vec![json!(position)],
        context: Some(json!({"error": if no_value { "Expecting value" } else { message }})),
        ..Mistake::new("json_invalid", "JSON decode error", json!({}))
    }
}

impl Body {
    /// The body as `T`.
    pub fn parse<T: Shaped>(self) -> Result<T, RestError> {
        self.turn.work(|| value(checked(self.json()?, &T::SHAPE)?))
    }

    /// The body as `T`, if it is one as far as the type alone knows.
    pub fn parse_at_once<T: DeserializeOwned>(&self) -> Option<T> {
        self.turn.work(|| serde_json::from_slice(&self.bytes).ok())
    }

    /// The body, or an empty object in place of null.
    pub fn or_empty(self) -> Self {
        let is_null = self.bytes.is_empty() || self.parse_at_once::<()>().is_some();
        if is_null { Self { bytes: Bytes::from_static(b"{}"), turn: Turn::Small } } else { self }
    }

    /// The body as an object of a shape.
    pub fn object(self, shape: &Shape) -> Result<Object, RestError> {
        self.turn.work(|| value(checked(self.json()?, shape)?))
    }

    fn json(&self) -> Result<Value, RestError> {
        if self.bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.bytes).map_err(|error| RestError::from(not_json(&self.bytes, &error)))
    }
}

/// A body, if it has this shape.
fn checked(mut body: Value, shape: &Shape) -> Result<Value, RestError> {
    if body.is_null() {
        return Err(RestError::from(Mistake::new("missing", "Field required", body)));
    }
    let mistakes = shape.mistakes(&mut body, false);
    if mistakes.is_empty() { Ok(body) } else { Err(RestError::Schema { source: "body", mistakes }) }
}

/// Query parameters, as the body of the search route of the same list would have them. Those that hold a list are
/// repeated; of others, the last counts.
pub fn parameters<T: Shaped>(Query(pairs): Query<Vec<(String, String)>>) -> Result<T, RestError> {
    let mut given = Object::new();
    for field in T::SHAPE.fields() {
        let mut texts = pairs.iter().filter(|(key, _)| key == field.name()).map(|(_, text)| json!(text)).peekable();
        if field.is_list() && texts.peek().is_some() {
            given.insert(field.name().to_owned(), texts.collect());
        } else if let Some(text) = texts.last() {
            given.insert(field.name().to_owned(), text);
        }
    }
    let mut given = Value::Object(given);
    let mut mistakes = T::SHAPE.mistakes(&mut given, true);
    if mistakes.is_empty() {
        return value(given);
    }
    for mistake in mistakes.iter_mut().filter(|mistake| mistake.kind == "missing") {
        mistake.input = Value::Null;
    }
    Err(RestError::Schema { source: "query", mistakes })
}

/// What has been checked, as `T`.
fn value<T: DeserializeOwned>(checked: Value) -> Result<T, RestError> {
    serde_path_to_error::deserialize(checked).map_err(|error| {
        let place = error.path().iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(json!(index)),
            Segment::Map { key } => Some(json!(key)),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let place = place.collect();
        RestError::from(Mistake::value(place, found_and_expected(&error.inner().to_string()), Value::Null))
    })
}

/// Takes a field out of an update that has been checked: absent, null, or a value.
pub fn field<T: DeserializeOwned>(object: &mut Object, key: &str) -> Result<Option<Option<T>>, RestError> {
    object.remove(key).map(value).transpose()
}

/// As [`field`], for one that may be absent, but not null.
pub fn value_field<T: DeserializeOwned>(object: &mut Object, key: &str) -> Result<Option<T>, RestError> {
    match field(object, key)? {
        None => Ok(None),
        Some(Some(value)) => Ok(Some(value)),
        Some(None) => Err(RestError::BadRequest(format!("{key} is invalid; it cannot be a null value."))),
    }
}

/// The part of a list that a request asks for.
#[derive(Deserialize)]
#[serde(default)]
pub struct Paging {
    limit: i64,
    offset: i64,
    sort_by: Option<String>,
    sort_order: Option<SortOrder>,
}

/// An object with the fields of [`Paging`](crate::conventions::input::Paging) and others.
#[macro_export]
macro_rules! paged {
    ($($field:expr),* $(,)?) => {
        $crate::conventions::shape::Shape::Record(&[
            $($field,)*
            $crate::conventions::input::LIMIT,
            $crate::conventions::input::OFFSET,
            $crate::conventions::input::SORT_BY,
            $crate::conventions::input::SORT_ORDER,
        ])
    };
}

/// The field `limit` of [`Paging`].
pub const LIMIT: Field = Field::optional("limit", Shape::Integer(i64::MIN));
/// The field `offset` of [`Paging`].
pub const OFFSET: Field = Field::optional("offset", Shape::Integer(i64::MIN));
/// The field `sort_by` of [`Paging`].
pub const SORT_BY: Field = Field::nullable("sort_by", Shape::Text);
/// The field `sort_order` of [`Paging`].
pub const SORT_ORDER: Field = Field::nullable("sort_order", Shape::Word(SortOrder::WORDS));

impl Shaped for Paging {
    const SHAPE: Shape = paged![];
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

/// The longest that anybody waits: a century, which a clock can count from now.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Seconds to wait as a duration; what is below 0 is 0.
pub fn seconds(field: &'static str, seconds: f64) -> Result<Duration, RestError> {
    Duration::try_from_secs_f64(seconds.max(0.0)).map(|wait| wait.min(LONGEST_WAIT)).map_err(|_| {
        let message = "Input should be a number of seconds that a clock can count";
        RestError::from(Mistake::value(vec![json!(field)], message, json!(seconds)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_no_clock_can_count_is_a_long_one() {
        assert_eq!(seconds("timeout", 2.5).unwrap(), Duration::from_millis(2500));
        assert_eq!(seconds("timeout", -1.0).unwrap(), Duration::ZERO);
        let longest = seconds("timeout", 1e19).unwrap();
        assert!(std::time::Instant::now().checked_add(longest).is_some());
        assert!(seconds("timeout", 1e300).is_err());
    }

    #[test]
    fn what_no_shape_refuses_is_told_with_its_place_and_in_plain_words() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "it is only read")]
        struct Inner {
            tries: u32,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "it is only read")]
        struct Outer {
            inner: Vec<Inner>,
        }
        let refused = |body: Value| match value::<Outer>(body).unwrap_err() {
            RestError::Schema { mistakes, .. } => {
                let [mistake] = &mistakes[..] else { panic!("{mistakes:?}") };
                (json!(mistake.location), mistake.message.clone())
            }
            other => panic!("{other:?}"),
        };
        let place = json!(["inner", 0, "tries"]);
        let of = |tries: Value| refused(json!({ "inner": [{ "tries": tries }] }));
        assert_eq!(of(json!(8589934592_u64)), (place.clone(), "8589934592 is too large".to_owned()));
        assert_eq!(of(json!(1e30)), (place, "1e+30 is too large".to_owned()));
        assert_eq!(refused(json!({ "inner": 5 })), (json!(["inner"]), "integer `5` where a list should be".to_owned()));
        let object = "integer `5` where an object should be".to_owned();
        assert_eq!(refused(json!({ "inner": [5] })), (json!(["inner", 0]), object));
    }
}
