//! Who may ask for what: what each route needs, and whether a request's key is that.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fulgurite_api::Refused;
use fulgurite_store::{KeyHolder, KeyRefused, Keyring};
use percent_encoding::percent_decode_str;

use crate::serve::connections::Door;
use crate::serve::web_origins::{Page, WebOrigins};

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// No key.
    Nothing,
    /// A key to model calls.
    ModelCalls,
    /// The rollout's own key.
    Rollout,
    /// The admin key.
    Admin,
}

impl Need {
    /// Of a route, by the path that it is registered under. A route that is not named here needs the admin key, and so does
    /// what is no route.
    fn of(method: &Method, route: Option<&str>) -> Self {
        let Some(route) = route else { return Need::Admin };
        // Clients ask an agent's base URL whether somebody is there, some before they have a key.
        let asks_who_is_there = *method == Method::HEAD;
        let of_attempt = route.strip_prefix("/rollout/{rollout_id}/attempt/{attempt_id}");
        match (of_attempt, route) {
            (_, "/healthz") => Need::Nothing,
            // A link to weights is signed.
            (_, route) if route.starts_with("/api/v1/downloads/") => Need::Nothing,
            (None, "/") | (Some("" | "/" | "/v1" | "/v1/"), _) if asks_who_is_there => Need::Nothing,
            (Some("/reward"), _)
            | (None, "/rollout/{rollout_id}/reward" | "/rollout/{rollout_id}/generation/{generation_id}/reward") => {
                Need::Rollout
            }
            (Some(_), _) => Need::ModelCalls,
            (None, route) if route.starts_with("/proxy/rollout/{rollout_id}/") => Need::ModelCalls,
            (
                None,
                "/v1/chat/completions"
                | "/v1/completions"
                | "/v1/embeddings"
                | "/v1/responses"
                | "/v1/responses/{response_id}"
                | "/v1/messages"
                | "/v1/messages/count_tokens"
                | "/v1/models"
                | "/v1/models/{*model}",
            ) => Need::ModelCalls,
            _ => Need::Admin,
        }
    }

    /// Whether whoever holds the key has what is needed, for the rollout that the path names.
    fn is_met_by(self, holder: &KeyHolder, rollout_id: Option<&str>) -> Result<(), KeyRefused> {
        match (self, holder) {
            (Need::Nothing, _) | (_, KeyHolder::Admin) | (Need::ModelCalls, KeyHolder::ModelCalls) => Ok(()),
            (Need::ModelCalls | Need::Rollout, KeyHolder::Attempt { rollout_id: of, .. }) => match rollout_id {
                Some(asked) if asked != of => Err(KeyRefused::OtherRollout { of: of.clone(), asked: asked.to_owned() }),
                _ => Ok(()),
            },
            (Need::Rollout, KeyHolder::Grader { rollout_id: of, .. }) => match rollout_id {
                Some(asked) if asked != of => Err(KeyRefused::OtherRollout { of: of.clone(), asked: asked.to_owned() }),
                _ => Ok(()),
            },
            (Need::ModelCalls | Need::Admin, KeyHolder::Grader { .. }) => Err(KeyRefused::AdminOnly { of: "a grader" }),
            (Need::Admin, KeyHolder::Attempt { .. }) => Err(KeyRefused::AdminOnly { of: "a rollout" }),
            (Need::Rollout | Need::Admin, KeyHolder::ModelCalls) => Err(KeyRefused::AdminOnly { of: "model calls" }),
        }
    }
}

/// What a request has to pass.
pub struct Entrance {
    /// It is closed when the server ends.
    pub door: Door,
    /// What keys open.
    pub keyring: Keyring,
    /// Greatest body of a request, in bytes.
    pub body_limit: usize,
    /// Under which names, and from which pages.
    pub origins: WebOrigins,
}

/// Lets a request in if it comes from where it may, the door is open and its key opens what it asks for. Without an admin
/// key, everything is open whatever key is sent; a key that names an attempt says whose a call is all the same, and rewards
/// no other rollout.
pub async fn check(
    State(entrance): State<Arc<Entrance>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let origins = &entrance.origins;
    let name = route.as_ref().map(MatchedPath::as_str);
    let (parts, body) = request.into_parts();
    let page = match (origins.check(&parts), Need::of(&parts.method, name)) {
        (Ok(page), _) => page,
        // Anybody may have that, and it changes nothing.
        (Err(_), Need::Nothing) => Page::Own,
        (Err(refused), _) => return refusal(name, &parts, refused),
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
    let Entrance { door, keyring, body_limit, .. } = entrance;
    let (mut parts, body) = request.into_parts();
    if !door.is_open() {
        return refusal(route, &parts, Refused::ShuttingDown);
    }
    if !is_text(parts.uri.path()) {
        let path = parts.uri.path().to_owned();
        return refusal(route, &parts, Refused::PathNotText { path });
    }
    let holder = holder(keyring, &parts.headers);
    let admitted = match (&holder, Need::of(&parts.method, route), &keyring.admin) {
        (_, Need::Nothing, _) => Ok(()),
        (Ok(holder @ (KeyHolder::Attempt { .. } | KeyHolder::Grader { .. })), need @ Need::Rollout, None) => {
            need.is_met_by(holder, rollout_id(&mut parts).await.as_deref())
        }
        (_, _, None) => Ok(()),
        (Ok(holder), need, Some(_)) => need.is_met_by(holder, rollout_id(&mut parts).await.as_deref()),
        (Err(refused), ..) => Err(refused.clone()),
    };
    if let Err(refused) = admitted {
        return refusal(route, &parts, refused.into());
    }
    // Nothing is read of a body that is known to be too large.
    if body.size_hint().lower() > *body_limit as u64 {
        return refusal(route, &parts, Refused::BodyTooLarge { limit: *body_limit });
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

/// Who bears the keys of a request: of several, the first that opens anything counts.
fn holder(keyring: &Keyring, headers: &HeaderMap) -> Result<KeyHolder, KeyRefused> {
    let mut refused = KeyRefused::Unknown;
    for key in keys(headers) {
        match keyring.holder(&key) {
            Ok(holder) => return Ok(holder),
            Err(expired @ KeyRefused::Expired { .. }) => refused = expired,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// The keys that a request carries: as a bearer's token, as the password of basic authentication, which is all that some
/// clients can be made to send (`http://any:KEY@host`), and as Anthropic's clients send theirs.
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
    authorised.chain(texts("x-api-key").map(str::to_owned)).collect()
}

/// The answer to a request that is not let in, in the dialect of what it asks for. `route` is the path that this is
/// registered under.
pub fn refusal(route: Option<&str>, request: &Parts, refused: Refused) -> Response {
    let Parts { method, uri, headers, .. } = request;
    // Under this module's name stand the lines of requests, which are filtered apart from all else.
    tracing::debug!(target: "fulgurite::refusals", path = uri.path(), %refused, "a request was refused");
    let status = refused.status();
    let mut response = match (Need::of(method, route), route) {
        (Need::ModelCalls, _) | (_, None) => fulgurite_proxy::refused(uri, headers, refused),
        (_, Some(_)) => fulgurite_api::refusal(uri.path(), headers, refused),
    };
    let told = match status {
        StatusCode::UNAUTHORIZED => &[(header::WWW_AUTHENTICATE, "Bearer")][..],
        StatusCode::SERVICE_UNAVAILABLE => &[(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")],
        _ => &[],
    };
    for (name, value) in told {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: &str = "/rollout/{rollout_id}/attempt/{attempt_id}";

    fn need(method: &str, route: &str) -> Need {
        Need::of(&method.parse().unwrap(), Some(route))
    }

    #[test]
    fn every_route_needs_the_admin_key_but_for_those_of_agents() {
        for route in [
            "/v1/chat/completions",
            "/v1/embeddings",
            "/v1/responses/{response_id}",
            "/v1/messages/count_tokens",
            "/v1/models",
            "/v1/models/{*model}",
        ] {
            assert_eq!(need("POST", route), Need::ModelCalls, "{route}");
            assert_eq!(need("GET", &format!("{ATTEMPT}{route}")), Need::ModelCalls, "{route}");
        }
        let gateway = "/proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{*endpoint}";
        assert_eq!(need("POST", gateway), Need::ModelCalls);
        for route in ["/rollout/{rollout_id}/reward", "/rollout/{rollout_id}/generation/{generation_id}/reward"] {
            assert_eq!(need("POST", route), Need::Rollout, "{route}");
        }
        assert_eq!(need("POST", &format!("{ATTEMPT}/reward")), Need::Rollout);
        for route in [
            "/rollout/{rollout_id}/drift",
            "/api/v1/{*path}",
            "/v1/agl/health",
            "/v1/traces",
            "/api/models",
            "/proxy/pause",
            "/new",
        ] {
            assert_eq!(need("GET", route), Need::Admin, "{route}");
        }
        assert_eq!(need("GET", "/api/v1/downloads/{expires}/{signature}/{file}"), Need::Nothing);
        assert_eq!(Need::of(&Method::GET, None), Need::Admin);
    }

    #[test]
    fn whether_somebody_is_there_may_be_asked_without_a_key() {
        assert_eq!(need("GET", "/healthz"), Need::Nothing);
        assert_eq!(need("HEAD", "/"), Need::Nothing);
        assert_eq!(need("HEAD", &format!("{ATTEMPT}/v1")), Need::Nothing);
        assert_eq!(need("GET", "/"), Need::Admin);
        assert_eq!(need("GET", ATTEMPT), Need::ModelCalls);
        assert_eq!(need("HEAD", "/v1/models"), Need::ModelCalls);
    }

    #[test]
    fn a_key_opens_its_own_door() {
        let of = |id: &str| KeyHolder::Attempt { rollout_id: id.into(), attempt_id: "a".into() };
        let grader = |id: &str| KeyHolder::Grader { rollout_id: id.into(), attempt_id: "a".into() };
        let other = KeyRefused::OtherRollout { of: "r".into(), asked: "s".into() };
        for (need, holder, rollout_id, expected) in [
            (Need::Admin, KeyHolder::Admin, None, Ok(())),
            (Need::Rollout, KeyHolder::Admin, Some("s"), Ok(())),
            (Need::ModelCalls, of("r"), Some("r"), Ok(())),
            (Need::ModelCalls, of("r"), None, Ok(())),
            (Need::ModelCalls, of("r"), Some("s"), Err(other.clone())),
            (Need::Rollout, of("r"), Some("r"), Ok(())),
            (Need::Rollout, of("r"), Some("s"), Err(other)),
            (Need::Admin, of("r"), Some("r"), Err(KeyRefused::AdminOnly { of: "a rollout" })),
            (Need::Rollout, grader("r"), Some("r"), Ok(())),
            (
                Need::Rollout,
                grader("s"),
                Some("r"),
                Err(KeyRefused::OtherRollout { of: "s".into(), asked: "r".into() }),
            ),
            (Need::ModelCalls, grader("r"), Some("r"), Err(KeyRefused::AdminOnly { of: "a grader" })),
            (Need::Admin, grader("r"), None, Err(KeyRefused::AdminOnly { of: "a grader" })),
            (Need::ModelCalls, KeyHolder::ModelCalls, Some("s"), Ok(())),
            (Need::Rollout, KeyHolder::ModelCalls, Some("s"), Err(KeyRefused::AdminOnly { of: "model calls" })),
        ] {
            assert_eq!(need.is_met_by(&holder, rollout_id), expected, "{need:?} {holder:?} {rollout_id:?}");
        }
    }

    #[test]
    fn keys_are_read_wherever_clients_put_them() {
        let read = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            keys(&headers)
        };
        assert_eq!(read(&[("authorization", "bearer  k"), ("x-api-key", "l")]), ["k", "l"]);
        // echo -n any:a:b | base64
        assert_eq!(read(&[("authorization", "Basic YW55OmE6Yg==")]), ["a:b"]);
        for nothing in ["Bearer", "Basic YW55", "Basic ???", "Digest k"] {
            assert!(read(&[("authorization", nothing)]).is_empty(), "{nothing}");
        }
    }
}
