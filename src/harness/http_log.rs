//! Every request of an agent's, as it came, and what it was answered with.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use tower::Layer;

use super::trial::Trial;

/// Variables that name the server; each has its own path there, by which it is told from the others.
pub const BASES: [&str; 2] = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"];
/// Variables that hold a key; each holds its own name, for a server without an admin key takes any.
pub const KEYS: [&str; 2] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"];
/// What comes before the name of a variable in the path that it holds.
pub const BY: &str = "/by/";

/// Under this name each request is logged, for who says so.
const LOG: &str = "fulgurite::harness";
/// Longest body that is looked at, in bytes; the server takes no longer one.
const BODY_LIMIT: usize = 64 << 20;

/// In which way a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Completions.
    Completions,
    /// Anthropic's Messages.
    Messages,
}

impl Dialect {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "Chat Completions",
            Self::Responses => "Responses",
            Self::Completions => "Completions",
            Self::Messages => "Messages",
        }
    }

    fn of(method: &Method, endpoint: &str) -> Option<Self> {
        if method != Method::POST {
            return None;
        }
        match endpoint.strip_prefix("/v1")? {
            "/chat/completions" => Some(Self::Chat),
            "/responses" => Some(Self::Responses),
            "/completions" => Some(Self::Completions),
            "/messages" => Some(Self::Messages),
            _ => None,
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Whose it is.
    pub trial: Trial,
    /// `POST /v1/messages`, without what names the attempt.
    pub asked: String,
    /// The dialect of a call for an answer.
    pub dialect: Option<Dialect>,
    /// The variable that named the server.
    pub base: Option<&'static str>,
    /// The variable that held the key.
    pub key: Option<&'static str>,
    /// Whether the answer was to be streamed.
    pub is_streamed: bool,
    /// Tools that it declared.
    pub tools: usize,
    /// What it was answered with.
    pub status: u16,
}

impl Seen {
    /// Whether it was a call of the task's, and not beside it.
    pub fn is_of_task(&self) -> bool {
        self.dialect.is_some() && self.tools > 0
    }
}

/// The requests so far.
#[derive(Debug, Default)]
pub struct HttpLog {
    seen: Mutex<Vec<Seen>>,
    refused: Mutex<HashSet<Trial>>,
}

impl HttpLog {
    /// Notes all that comes to `routes` by a variable's path, and hands it on without that.
    pub fn around(self: &Arc<Self>, routes: Router) -> Router {
        // Paths are changed, so that it has to stand before all routing.
        let noted = from_fn_with_state(self.clone(), note).layer(routes);
        Router::new().fallback_service(noted)
    }

    /// The requests of a trial.
    pub fn of(&self, trial: Trial) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|seen| seen.trial == trial).cloned().collect()
    }

    /// Whether a request is the one that is refused with 429.
    fn refuses(&self, seen: &Seen) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        seen.trial == Trial::RateLimit && seen.is_of_task() && refused.insert(seen.trial)
    }
}

async fn note(State(log): State<Arc<HttpLog>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let base = take_variable(&mut parts);
    let Some((trial, endpoint)) = attempt_of(parts.uri.path()).filter(|_| base.is_some()) else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut seen = Seen {
        trial,
        asked: format!("{} {endpoint}", parts.method),
        dialect: Dialect::of(&parts.method, &endpoint),
        base,
        key: key_of(&parts),
        is_streamed: said["stream"] == true,
        tools: said["tools"].as_array().map_or(0, Vec::len),
        status: 0,
    };
    let response = match log.refuses(&seen) {
        true => too_many_requests(),
        false => next.run(Request::from_parts(parts, Body::from(body))).await,
    };
    seen.status = response.status().as_u16();
    tracing::debug!(target: LOG, "{}: {} {} with {} tools", seen.trial.name(), seen.asked, seen.status, seen.tools);
    log.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    response
}

/// In the words of both OpenAI and Anthropic.
fn too_many_requests() -> Response {
    let error = json!({ "type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "too many requests" });
    (StatusCode::TOO_MANY_REQUESTS, axum::Json(json!({ "type": "error", "error": error }))).into_response()
}

/// Takes the variable's name out of the path that it held.
fn take_variable(parts: &mut Parts) -> Option<&'static str> {
    let whole = parts.uri.path_and_query()?.as_str().to_owned();
    let rest = whole.strip_prefix(BY)?;
    let name = BASES.into_iter().find(|name| rest.starts_with(name))?;
    parts.uri = rest.strip_prefix(name)?.parse::<Uri>().ok()?;
    Some(name)
}

/// Whose a path is, and what of it follows the attempt.
fn attempt_of(path: &str) -> Option<(Trial, String)> {
    let (rollout, rest) = path.strip_prefix("/rollout/")?.split_once("/attempt/")?;
    let endpoint = rest.find('/').map_or("/", |slash| rest.get(slash..).unwrap_or("/"));
    Some((Trial::of_rollout(rollout)?, endpoint.to_owned()))
}

fn key_of(parts: &Parts) -> Option<&'static str> {
    let said: Vec<&str> = ["x-api-key", AUTHORIZATION.as_str()]
        .iter()
        .filter_map(|name| parts.headers.get(*name)?.to_str().ok())
        .collect();
    KEYS.into_iter().find(|key| said.iter().any(|said| said.ends_with(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_by_which_variable_it_came_and_whose_it_is() {
        let request = Request::builder().uri("/by/OPENAI_BASE_URL/rollout/ro-check-plain/attempt/at-1/v1/models?a=b");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(take_variable(&mut parts), Some("OPENAI_BASE_URL"));
        assert_eq!(parts.uri.to_string(), "/rollout/ro-check-plain/attempt/at-1/v1/models?a=b");
        assert_eq!(attempt_of(parts.uri.path()), Some((Trial::Plain, "/v1/models".to_owned())));
        assert_eq!(attempt_of("/rollout/ro-check-plain/attempt/at-1"), Some((Trial::Plain, "/".to_owned())));
        assert_eq!(attempt_of("/rollout/ro-other/attempt/at-1/v1/models"), None);
        assert_eq!(take_variable(&mut parts), None);
    }

    #[test]
    fn only_posts_for_an_answer_have_a_dialect() {
        let of = |endpoint| Dialect::of(&Method::POST, endpoint);
        assert_eq!((of("/v1/messages"), of("/v1/messages/count_tokens")), (Some(Dialect::Messages), None));
        assert_eq!(Dialect::of(&Method::GET, "/v1/responses"), None);
    }
}
