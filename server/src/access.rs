//! Lets a request in if its key is what its route needs.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fulgurite_api::{Need, Refused, RouteNeeds};
use fulgurite_store::{KeyHolder, KeyRefused, Keyring};
use percent_encoding::percent_decode_str;

use crate::http::gate::Gate;
use crate::login;
use crate::web_origins::{Page, WebOrigins};

/// What a request has to pass.
pub(crate) struct Entrance {
    /// It is closed when the server ends.
    pub(crate) gate: Gate,
    /// What keys open.
    pub(crate) keyring: Keyring,
    /// What routes need of them.
    pub(crate) needs: RouteNeeds,
    /// Greatest body of a request, in bytes.
    pub(crate) body_limit: usize,
    /// Under which names, and from which pages.
    pub(crate) origins: WebOrigins,
}

/// Lets a request in if it comes from where it may, the gate is open and its key opens what it asks for. Without an admin
/// key, everything is open whatever key is sent; a key that names an attempt says whose a call is all the same, and rewards
/// no other rollout.
pub(crate) async fn check(
    State(entrance): State<Arc<Entrance>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let Entrance { origins, needs, .. } = &*entrance;
    let name = route.as_ref().map(MatchedPath::as_str);
    let (parts, body) = request.into_parts();
    let page = match (origins.check(&parts), needs.of(&parts.method, name)) {
        (Ok(page), _) => page,
        // Anybody may have that, and it changes nothing.
        (Err(_), Need::Nothing) => Page::Own,
        (Err(refused), _) => return refusal(needs, name, &parts, refused),
    };
    if let Some(mut answer) = origins.preflight(&parts, &page) {
        origins.mark(&mut answer, &page);
        return answer;
    }
    let mut response = check_key(&entrance, name, Request::from_parts(parts, body), next).await;
    origins.mark(&mut response, &page);
    response
}

async fn check_key(entrance: &Entrance, route: Option<&str>, request: Request, next: Next) -> Response {
    let Entrance { gate, keyring, needs, body_limit, .. } = entrance;
    let refusal = |parts: &Parts, refused: Refused| refusal(needs, route, parts, refused);
    let (mut parts, body) = request.into_parts();
    if !gate.is_open() {
        return refusal(&parts, Refused::ShuttingDown);
    }
    if !is_text(parts.uri.path()) {
        let path = parts.uri.path().to_owned();
        return refusal(&parts, Refused::PathNotText { path });
    }
    let holder = holder(keyring, &parts);
    let admitted = match (&holder, needs.of(&parts.method, route), &keyring.admin) {
        (_, Need::Nothing, _) => Ok(()),
        // Nothing is there: who has a key at all is told what would be right.
        (Ok(_), _, Some(_)) if route.is_none() => Ok(()),
        (Ok(holder @ (KeyHolder::Attempt { .. } | KeyHolder::Grader { .. })), need @ Need::Rollout, None)
        | (Ok(holder), need, Some(_)) => {
            let method = parts.method.clone();
            need.is_met_by(holder, &method, rollout_id(&mut parts).await.as_deref())
        }
        (_, _, None) => Ok(()),
        (Err(refused), ..) => Err(refused.clone()),
    };
    if let Err(refused) = admitted {
        return refusal(&parts, refused.into());
    }
    // Nothing is read of a body that is known to be too large.
    if body.size_hint().lower() > *body_limit as u64 {
        return refusal(&parts, Refused::BodyTooLarge { limit: *body_limit });
    }
    let mut request = Request::from_parts(parts, body);
    if let Ok(holder) = holder {
        request.extensions_mut().insert(holder);
    }
    next.run(request).await
}

/// Whether a path is UTF-8 once its percent signs are decoded.
fn is_text(path: &str) -> bool {
    percent_decode_str(path).decode_utf8().is_ok()
}

/// The rollout that the path names, read as its route reads it.
async fn rollout_id(parts: &mut Parts) -> Option<String> {
    // A path without variable parts has none to read.
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    params.iter().find(|(name, _)| *name == "rollout_id").map(|(_, id)| id.to_owned())
}

/// Who bears the keys of a request: of several, the first that opens anything counts, and then a browser's cookie.
fn holder(keyring: &Keyring, request: &Parts) -> Result<KeyHolder, KeyRefused> {
    let mut refused = KeyRefused::Unknown;
    for key in keys(&request.headers).into_iter().chain(fulgurite_proxy::key_in_query(&request.uri)) {
        match keyring.holder(&key) {
            Ok(holder) => return Ok(holder),
            Err(expired @ KeyRefused::Expired { .. }) => refused = expired,
            Err(_) => {}
        }
    }
    login::reader(keyring, &request.headers).ok_or(refused)
}

/// The keys that a request carries: as a bearer's token, as the password of basic authentication, which is all that some
/// clients can be made to send (`http://any:KEY@host`), and as Anthropic's and Google's clients send theirs.
fn keys(headers: &HeaderMap) -> Vec<String> {
    let texts = |name| headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let authorised = texts("authorization").filter_map(|value| {
        let (scheme, credentials) = value.split_once(' ')?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Some(credentials.trim().to_owned()),
            "basic" => {
                let pair = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
                pair.split_once(':').map(|(_, password)| password.to_owned())
            }
            _ => None,
        }
    });
    let alone = ["x-api-key", "x-goog-api-key"].into_iter().flat_map(texts).map(str::to_owned);
    authorised.chain(alone).collect()
}

/// The answer to a request that is not let in, in the dialect of what it asks for. `route` is the path that this is
/// registered under.
fn refusal(needs: &RouteNeeds, route: Option<&str>, request: &Parts, refused: Refused) -> Response {
    let Parts { method, uri, headers, version, .. } = request;
    // Under this module's name stand the lines of requests, which are filtered apart from all else.
    tracing::debug!(target: "fulgurite::refusals", path = uri.path(), %refused, "a request was refused");
    if fulgurite_api::is_grpc(*version, headers) {
        return fulgurite_api::refusal(request, refused);
    }
    let status = refused.status();
    let mut response = match (needs.of(method, route), route) {
        (Need::ModelCalls, _) | (_, None) => fulgurite_proxy::refused(uri, headers, refused),
        (_, Some(_)) => fulgurite_api::refusal(request, refused),
    };
    let headers = match status {
        StatusCode::UNAUTHORIZED => &[(header::WWW_AUTHENTICATE, "Bearer")][..],
        StatusCode::SERVICE_UNAVAILABLE => &[(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")],
        _ => &[],
    };
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_wherever_clients_put_them() {
        let read = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            keys(&headers)
        };
        let every = [("authorization", "bearer  k"), ("x-goog-api-key", "m"), ("x-api-key", "l")];
        assert_eq!(read(&every), ["k", "l", "m"]);
        // echo -n any:a:b | base64
        assert_eq!(read(&[("authorization", "Basic YW55OmE6Yg==")]), ["a:b"]);
        for nothing in ["Bearer", "Basic YW55", "Basic ???", "Digest k"] {
            assert!(read(&[("authorization", nothing)]).is_empty(), "{nothing}");
        }
    }
}
