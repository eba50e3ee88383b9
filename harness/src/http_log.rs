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
pub(crate) const BASES: [&str; 3] = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"];
/// Variables that hold a key; each holds its own name, for a server without an admin key takes any.
pub(crate) const KEYS: [&str; 3] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
/// What comes before the name of a variable in the path that it holds.
pub(crate) const BY: &str = "/by/";

/// Under this name each request is logged, for who says so.
const LOG: &str = "fulgurite::harness";
/// Longest body that is looked at, in bytes; the server takes no longer one.
const BODY_LIMIT: usize = 64 << 20;

/// In which way a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dialect {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Completions.
    Completions,
    /// Anthropic's Messages.
    Messages,
    /// Google's generateContent.
    GenerateContent,
}

/// Behind a model's name in Google's paths; the first is answered whole, the second in a stream.
const GENERATE_CONTENT: [&str; 2] = ["generateContent", "streamGenerateContent"];

impl Dialect {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "Chat Completions",
            Self::Responses => "Responses",
            Self::Completions => "Completions",
            Self::Messages => "Messages",
            Self::GenerateContent => "generateContent",
        }
    }

    fn of(method: &Method, endpoint: &str) -> Option<Self> {
        if method != Method::POST {
            return None;
        }
        match endpoint.strip_prefix("/v1beta").or_else(|| endpoint.strip_prefix("/v1"))? {
            "/chat/completions" => Some(Self::Chat),
            "/responses" => Some(Self::Responses),
            "/completions" => Some(Self::Completions),
            "/messages" => Some(Self::Messages),
            of_model if of_model.starts_with("/models/") => {
                GENERATE_CONTENT.contains(&method_of_model(of_model)?).then_some(Self::GenerateContent)
            }
            _ => None,
        }
    }

    /// Whether the answer to a call is to be streamed: Google says so in the path.
    fn is_streamed(self, endpoint: &str, body: &Value) -> bool {
        match self {
            Self::GenerateContent => method_of_model(endpoint) == Some(GENERATE_CONTENT[1]),
            Self::Chat | Self::Responses | Self::Completions | Self::Messages => body["stream"] == true,
        }
    }
}

/// What Google's paths say behind a model's name.
fn method_of_model(endpoint: &str) -> Option<&str> {
    endpoint.rsplit_once(':').map(|(_, method)| method)
}

/// How many tools a request declares. Google's hold several functions each.
fn tools(body: &Value) -> usize {
    let functions = |tool: &Value| {
        let several = ["functionDeclarations", "function_declarations"].iter().find_map(|name| tool[*name].as_array());
        several.map_or(1, Vec::len)
    };
    body["tools"].as_array().map_or(0, |tools| tools.iter().map(functions).sum())
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Whose it is.
    pub(crate) trial: Trial,
    /// `POST /v1/messages`, without what names the attempt.
    pub(crate) request: String,
    /// The dialect of a call for an answer.
    pub(crate) dialect: Option<Dialect>,
    /// The variable that named the server.
    pub(crate) base: Option<&'static str>,
    /// The variable that held the key.
    pub(crate) key: Option<&'static str>,
    /// Whether the answer was to be streamed.
    pub(crate) is_streamed: bool,
    /// Tools that it declared.
    pub(crate) tools: usize,
    /// What it was answered with.
    pub(crate) status: u16,
}

impl Seen {
    /// Whether it was a call of the task's, and not beside it.
    pub(crate) fn is_of_task(&self) -> bool {
        self.dialect.is_some() && self.tools > 0
    }
}

/// The requests so far.
#[derive(Debug, Default)]
pub(crate) struct HttpLog {
    seen: Mutex<Vec<Seen>>,
    refused: Mutex<HashSet<Trial>>,
}

impl HttpLog {
    /// Notes all that comes to `routes` by a variable's path, and hands it on without that.
    pub(crate) fn around(self: &Arc<Self>, routes: Router) -> Router {
        // Paths are changed, so that it has to stand before all routing.
        let noted = from_fn_with_state(self.clone(), note).layer(routes);
        Router::new().fallback_service(noted)
    }

    /// The requests of a trial.
    pub(crate) fn of(&self, trial: Trial) -> Vec<Seen> {
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
    // What a harness sends is noted as it is; the model's server answers what is no JSON.
    let content: Value = serde_json::from_slice(&body).unwrap_or_default();
    let dialect = Dialect::of(&parts.method, &endpoint);
    let mut seen = Seen {
        trial,
        request: format!("{} {endpoint}", parts.method),
        dialect,
        base,
        key: key_of(&parts),
        is_streamed: dialect.is_some_and(|dialect| dialect.is_streamed(&endpoint, &content)),
        tools: tools(&content),
        status: 0,
    };
    let response = match log.refuses(&seen) {
        true => too_many_requests(seen.dialect),
        false => next.run(Request::from_parts(parts, Body::from(body))).await,
    };
    seen.status = response.status().as_u16();
    tracing::debug!(target: LOG, "{}: {} {} with {} tools", seen.trial.name(), seen.request, seen.status, seen.tools);
    log.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    response
}

/// In the words of both OpenAI and Anthropic, or in Google's.
fn too_many_requests(dialect: Option<Dialect>) -> Response {
    let message = "too many requests";
    let body = match dialect {
        Some(Dialect::GenerateContent) => {
            json!({ "error": { "code": 429, "message": message, "status": "RESOURCE_EXHAUSTED" } })
        }
        _ => {
            let error = json!({ "type": "rate_limit_error", "code": "rate_limit_exceeded", "message": message });
            json!({ "type": "error", "error": error })
        }
    };
    (StatusCode::TOO_MANY_REQUESTS, axum::Json(body)).into_response()
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
    let in_query = fulgurite_proxy::key_in_query(&parts.uri);
    let headers: Vec<&str> = ["x-api-key", "x-goog-api-key", AUTHORIZATION.as_str()]
        .iter()
        .filter_map(|name| parts.headers.get(*name)?.to_str().ok())
        .chain(in_query.as_deref())
        .collect();
    KEYS.into_iter().find(|key| headers.iter().any(|header| header.ends_with(key)))
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
        let google = Dialect::GenerateContent;
        for (endpoint, is_streamed) in [
            ("/v1beta/models/checked:generateContent", false),
            ("/v1/models/org/tiny:0.6b:generateContent", false),
            ("/v1beta/models/checked:streamGenerateContent", true),
        ] {
            assert_eq!(of(endpoint), Some(google), "{endpoint}");
            assert_eq!(google.is_streamed(endpoint, &Value::Null), is_streamed, "{endpoint}");
        }
        for other in ["/v1beta/models/checked:countTokens", "/v1beta/models/checked", "/v1/models"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert!(Dialect::Chat.is_streamed("/v1/chat/completions", &json!({ "stream": true })));
    }

    #[test]
    fn functions_are_tools_also_where_a_tool_holds_several() {
        assert_eq!(tools(&json!({ "tools": [{ "type": "function" }, { "type": "function" }] })), 2);
        let functions = json!([{ "name": "a" }, { "name": "b" }]);
        assert_eq!(tools(&json!({ "tools": [{ "functionDeclarations": functions }, { "googleSearch": {} }] })), 3);
        assert_eq!(tools(&json!({ "contents": [] })), 0);
    }

    #[test]
    fn a_key_is_found_where_each_dialect_has_it() {
        for (uri, header, expected) in [
            ("/v1/responses", ("authorization", "Bearer OPENAI_API_KEY"), Some("OPENAI_API_KEY")),
            ("/v1/messages", ("x-api-key", "ANTHROPIC_API_KEY"), Some("ANTHROPIC_API_KEY")),
            ("/v1beta/models/m:generateContent", ("x-goog-api-key", "GEMINI_API_KEY"), Some("GEMINI_API_KEY")),
            ("/v1beta/models/m:generateContent?key=GEMINI_API_KEY", ("accept", "*/*"), Some("GEMINI_API_KEY")),
            ("/v1/responses", ("authorization", "Bearer other"), None),
        ] {
            let request = Request::builder().uri(uri).header(header.0, header.1).body(()).unwrap();
            assert_eq!(key_of(&request.into_parts().0), expected, "{uri}");
        }
    }
}
