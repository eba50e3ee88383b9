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
/// Seconds for which a browser stays in, at most.
const SECONDS: u64 = 12 * 3600;

/// Somebody who wants in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    key: String,
}

/// `POST /v1/fulgurite/login` and `POST /v1/fulgurite/logout`.
pub(crate) fn routes(keyring: Keyring, needs: &mut RouteNeeds) -> Router {
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
    let (changes, seconds) = match (&keyring.admin, keyring.holder(&key)) {
        (None, _) | (_, Ok(KeyHolder::Admin)) => (true, SECONDS),
        // No longer than the key that was sent, which may be an earlier cookie's: otherwise either could be renewed for ever.
        (_, Ok(KeyHolder::Reader)) => (false, keyring.seconds_left(&key).unwrap_or(0).min(SECONDS)),
        _ => {
            let detail = "this is neither the admin key nor a reader's";
            return (StatusCode::UNAUTHORIZED, Json(json!({ "detail": detail }))).into_response();
        }
    };
    let reader = keyring.issued.reader_key(seconds);
    with_cookie(Json(json!({ "changes": changes })).into_response(), &reader, seconds)
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
pub(crate) fn reader(keyring: &Keyring, headers: &HeaderMap) -> Option<KeyHolder> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, key) = values.find(|(name, _)| *name == COOKIE)?;
    keyring.holder(key).ok().filter(|holder| *holder == KeyHolder::Reader)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use fulgurite_store::{AdminKey, Store, StoreOptions};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_readers_login_ends_with_its_key_however_often_it_is_renewed() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("keys.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let issued = store.issued_keys().await.unwrap().clone();
        let mut key = issued.reader_key(1000);
        let keyring = Keyring { admin: Some(AdminKey::new("the-admins-key").unwrap()), issued };
        let routes = routes(keyring.clone(), &mut RouteNeeds::default());
        let cookie = async |key: &str| {
            let body = Body::from(json!({ "key": key }).to_string());
            let request = Request::post("/v1/fulgurite/login").header(header::CONTENT_TYPE, "application/json");
            let response = routes.clone().oneshot(request.body(body).unwrap()).await.unwrap();
            let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
            let value = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
            let age = cookie.split("Max-Age=").nth(1).unwrap().split(';').next().unwrap().parse::<u64>().unwrap();
            (value, age)
        };
        for _ in 0..3 {
            let before = keyring.seconds_left(&key).unwrap();
            let (value, age) = cookie(&key).await;
            assert!(age <= before && keyring.seconds_left(&value).unwrap() <= before);
            key = value;
        }
        let (value, age) = cookie("the-admins-key").await;
        assert!(age == SECONDS && keyring.seconds_left(&value).unwrap() <= SECONDS);
        assert_eq!(cookie(&keyring.issued.reader_key(10 * SECONDS)).await.1, SECONDS);
        store.close().await;
    }
}
