//! Reading bodies and query parameters, with errors that say which field is at fault.

use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use fulgurite_backends::aside;
use fulgurite_types::MendedJson;
use serde::de::DeserializeOwned;

use crate::server::refusals::Refusal;

/// Query parameters.
pub(crate) struct Parameters<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let read = Query::try_from_uri(&parts.uri).map(|Query(parameters)| Self(parameters));
        read.map_err(|error| {
            let source = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Refusal { status: StatusCode::BAD_REQUEST, ..Refusal::unreadable(source) }
        })
    }
}

const WARNING: &str = "x-fulgurite-warning";

tokio::task_local! {
    /// What the client of the request that this task answers should know.
    static WARNINGS: Mutex<Vec<String>>;
}

/// Answers a request, with what its client should know in a header.
pub(crate) async fn with_warnings(request: Request, next: Next) -> Response {
    let answered = async move {
        let response = next.run(request).await;
        let warnings = WARNINGS.with(|warnings| warnings.lock().unwrap_or_else(PoisonError::into_inner).join("; "));
        (response, warnings)
    };
    let (mut response, warnings) = WARNINGS.scope(Mutex::default(), answered).await;
    if let Some(warnings) = HeaderValue::from_str(&warnings).ok().filter(|warnings| !warnings.is_empty()) {
        response.headers_mut().insert(WARNING, warnings);
    }
    response
}

/// Tells the client of the request something beside its answer, and the log.
pub(crate) fn warn(warning: String) {
    tracing::info!("{warning}");
    // Outside of a request there is nobody to tell.
    let _ = WARNINGS.try_with(|warnings| warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning));
}

/// A body of JSON, in which halves of surrogate pairs are replaced.
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    unless_small(body.len(), || {
        let mended = MendedJson::of(body);
        if let Some(mended) = &mended {
            warn(mended.warning());
        }
        let body = mended.as_ref().map_or(&**body, |mended| &mended.text);
        serde_json::from_slice(body).map_err(|error| unreadable::<T>(body, &error))
    })
}

/// Why a body cannot be read, and which of its fields is at fault.
fn unreadable<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Refusal {
    let mut reader = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(placed) => Refusal::unreadable_at(&placed.path().to_string(), placed.inner()),
        Ok(_) => Refusal::unreadable(error),
    }
}

/// Bodies up to this size are read where they arrive: it takes less than a millisecond.
const SMALL: usize = 64 * 1024;

/// Works at what came of a body of so many bytes: aside from other requests, unless it is small.
pub(crate) fn unless_small<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= SMALL { work() } else { aside(work) }
}

#[cfg(test)]
mod tests {
    use crate::wire::{CreateModelRequest, JsonForwardRequest, SampleRequest};
    use serde_json::{Value, json};

    use super::*;
    use crate::server::management::page::PageRange;

    #[tokio::test]
    async fn half_a_surrogate_pair_in_a_body_is_replaced_and_the_answer_says_so() {
        use axum::body::Body;
        use tower::ServiceExt;

        let handler = async |body: Bytes| read::<Value>(&body).map(|read| read["a"].as_str().unwrap().to_owned()).ok();
        let routes = axum::Router::new()
            .route("/x", axum::routing::post(async move |body: Bytes| handler(body).await.unwrap_or_default()))
            .layer(axum::middleware::from_fn(with_warnings));
        for (body, warning) in
            [(r#"{"a":"\ud99c"}"#, Some("half a surrogate pair in a replaced by U+FFFD: 1")), (r#"{"a":"b"}"#, None)]
        {
            let request = Request::post("/x").body(Body::from(body)).unwrap();
            let response = routes.clone().oneshot(request).await.unwrap();
            let found = response.headers().get(WARNING).map(|warning| warning.to_str().unwrap());
            assert_eq!((response.status(), found), (StatusCode::OK, warning));
        }
    }

    #[tokio::test]
    async fn a_mistake_is_told_with_its_place_and_not_in_serdes_words() {
        fn described<T: DeserializeOwned>(body: &Value) -> String {
            read::<T>(&Bytes::from(body.to_string())).err().unwrap().detail
        }
        let model = |rank: Value| json!({ "session_id": "s", "model_seq_id": 0, "base_model": "m", "lora_config": { "rank": rank } });
        let pass = |chunk: Value| {
            let input = json!({ "data": [{ "model_input": { "chunks": [chunk] } }], "loss_fn": "cross_entropy" });
            json!({ "model_id": "m", "forward_input": input })
        };
        let sample = |parameters: Value| json!({ "prompt": { "chunks": [] }, "sampling_params": parameters });
        let messages = [
            described::<CreateModelRequest>(&model(json!("x"))),
            described::<CreateModelRequest>(&model(json!(8589934592_u64))),
            described::<CreateModelRequest>(&json!([])),
            described::<CreateModelRequest>(&json!({ "session_id": 5 })),
            described::<JsonForwardRequest>(&json!({ "model_id": "m", "forward_input": 5 })),
            described::<JsonForwardRequest>(&pass(json!({ "type": "audio" }))),
            described::<JsonForwardRequest>(&pass(json!({ "tokens": [1] }))),
            described::<SampleRequest>(&sample(json!({ "temperature": "hot" }))),
            described::<SampleRequest>(&sample(json!({ "stop": {} }))),
        ];
        let messages =
            messages.map(|messages| messages.strip_prefix("the request cannot be read: ").unwrap().to_owned());
        let messages = messages.map(|messages| {
            messages.rsplit_once(" at line ").map_or(messages.clone(), |(messages, _)| messages.to_owned())
        });
        assert_eq!(
            messages,
            [
                "lora_config.rank is \"x\", but must be a whole number, 0 or more",
                "lora_config.rank is 8589934592, which is too large",
                "it is a list, but must be an object",
                "session_id is 5, but must be a string",
                "forward_input is 5, but must be an object",
                "forward_input.data[0].model_input.chunks[0].type cannot be `audio`; there is `encoded_text`, `image`, `image_asset_pointer`, `dmel`",
                "forward_input.data[0].model_input.chunks[0] needs `type`, which is missing",
                "sampling_params.temperature is \"hot\", but must be a number",
                "sampling_params.stop has none of the forms that it may have",
            ]
        );

        let mut parts = axum::http::Request::builder().uri("/x?limit=ten").body(()).unwrap().into_parts().0;
        let refusal = Parameters::<PageRange>::from_request_parts(&mut parts, &()).await.err().unwrap();
        assert_eq!(refusal.detail, "the request cannot be read: limit must be a whole number");
    }
}
