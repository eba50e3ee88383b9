//! How a browser comes in: a key is sent once, and what stays in the browser is a cookie that only reads.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use fulgurite_api::{Need, RouteNeeds};
use fulgurite_store::{KeyHolder, Keyring};
use serde::Deserialize;
use serde_json::json;

/// The cookie's name.
const COOKIE: &str = "fulgurite_reader";
/// Seconds for which a browser stays in.
const SECONDS: u64 = 12 * 3600;

/// Somebody who wants in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    key: String,
}

/// `POST /v1/fulgurite/login` and `POST /v1/fulgurite/logout`.
pub fn routes(keyring: Keyring, needs: &mut RouteNeeds) -> Router {
    Router::new()
        .route(needs.note("/v1/fulgurite/login", Need::Nothing), post(login))
        .route(needs.note("/v1/fulgurite/logout", Need::Nothing), post(logout))
        .with_state(Arc::new(keyring))
}

/// Answers with a cookie of a key that reads and changes nothing, for who sends the admin key or a reader's; `changes` says
/// whether the key itself changes things.
async fn login(
    State(keyring): State<Arc<Keyring>>,
    body: Result<Json<Login>, axum::extract::rejection::JsonRejection>,
) -> Response {
    let Ok(Json(Login { key })) = body else {
        let detail = "the body must be {\"key\": \"...\"}";
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "detail": detail }))).into_response();
    };
    let changes = match (&keyring.admin, keyring.holder(&key)) {
        (None, _) | (_, Ok(KeyHolder::Admin)) => true,
        (_, Ok(KeyHolder::Reader)) => false,
        _ => {
            let detail = "this is neither the admin key nor a reader's";
            return (StatusCode::UNAUTHORIZED, Json(json!({ "detail": detail }))).into_response();
        }
    };
    let reader = keyring.issued.reader_key(SECONDS);
    with_cookie(Json(json!({ "changes": changes })).into_response(), &reader, SECONDS)
}

/// Has the browser forget its cookie.
async fn logout() -> Response {
    with_cookie(StatusCode::NO_CONTENT.into_response(), "", 0)
}

fn with_cookie(mut response: Response, value: &str, seconds: u64) -> Response {
    // No script reads it, and no page of another site has it sent.
    let cookie = format!("{COOKIE}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Who a request's cookie is of. A key that does more than read is none of a browser's.
pub fn reader(keyring: &Keyring, headers: &HeaderMap) -> Option<KeyHolder> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, key) = values.find(|(name, _)| *name == COOKIE)?;
    keyring.holder(key).ok().filter(|holder| *holder == KeyHolder::Reader)
}
