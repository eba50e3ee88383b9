use std::sync::Arc;

use axum::RequestExt;
use axum::body::Body;
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::observe::call_facts::CallFacts;
use crate::observe::observed_body::{BodyEnd, ObservedBody};

/// A middleware that logs each request when the last byte of its response has been sent or its client has left: a tracing
/// event of level info in target `fulgurite::access`. It has the route and not the path, and no contents,
/// query or headers, so that no text and no key are in the log; of a path that is no route, the words that are those of some API.
pub async fn log_access(mut request: Request, next: Next) -> Response {
    let entry = Entry {
        method: request.method().clone(),
        route: request.extensions().get().cloned(),
        unknown_path: request.extensions().get::<MatchedPath>().is_none().then(|| path_of(&request)),
        attempt: attempt_in_path(&mut request).await,
        facts: Arc::clone(request.extensions_mut().get_or_insert_default::<Arc<CallFacts>>()),
        status: None,
        end: BodyEnd { bytes: 0, is_whole: false },
    };
    let response = next.run(request).await;
    let status = response.status();
    response.map(|body| Body::new(ObservedBody::new(body, move |end| entry.end(status, end))))
}

/// Segments of a path that nobody serves, which are logged.
const SEGMENTS: usize = 12;

/// Words of the paths of APIs that clients of models call. Any other may be a key or a name.
const WORDS: [&str; 68] = [
    "api",
    "apply",
    "assistants",
    "audio",
    "audit",
    "batches",
    "beta",
    "billing",
    "cancel",
    "chat",
    "checkpoints",
    "classify",
    "collections",
    "compact",
    "completions",
    "content",
    "conversations",
    "count_tokens",
    "countTokens",
    "detokenize",
    "edits",
    "embed",
    "embeddings",
    "events",
    "files",
    "fine_tuning",
    "generate",
    "generateContent",
    "generations",
    "health",
    "images",
    "inference",
    "input_items",
    "invocations",
    "items",
    "jobs",
    "load",
    "messages",
    "metrics",
    "models",
    "moderations",
    "oai",
    "openai",
    "openapi.json",
    "organization",
    "ping",
    "projects",
    "ps",
    "realtime",
    "rerank",
    "responses",
    "results",
    "runs",
    "score",
    "sessions",
    "show",
    "speech",
    "streamGenerateContent",
    "tags",
    "threads",
    "tokenize",
    "transcriptions",
    "uploads",
    "v1",
    "v1beta",
    "v2",
    "vector_stores",
    "version",
];

/// A path, but for what may be a key or a name: of a segment `name:method` the method.
fn path_of(request: &Request) -> String {
    let known = |segment: &str| WORDS.contains(&segment);
    let shown = |segment: &str| match segment.rsplit_once(':') {
        _ if segment.is_empty() || known(segment) => segment.to_owned(),
        Some((_, method)) if known(method) => format!("*:{method}"),
        _ => "*".to_owned(),
    };
    request.uri().path().split('/').take(SEGMENTS).map(shown).collect::<Vec<_>>().join("/")
}

/// Rollout and attempt that the path names.
async fn attempt_in_path(request: &mut Request) -> (Option<String>, Option<String>) {
    let parameters = request.extract_parts::<RawPathParams>().await.ok();
    let parameter = |name: &str| {
        let mut all = parameters.iter().flatten();
        all.find_map(|(own, value)| (own == name).then(|| value.to_owned()))
    };
    (parameter("rollout_id"), parameter("attempt_id"))
}

/// A request's line, which is written when this is dropped.
struct Entry {
    method: Method,
    /// None if there is no such route.
    route: Option<MatchedPath>,
    unknown_path: Option<String>,
    attempt: (Option<String>, Option<String>),
    facts: Arc<CallFacts>,
    /// None if the client left before there was one.
    status: Option<StatusCode>,
    end: BodyEnd,
}

impl Entry {
    fn end(mut self, status: StatusCode, end: BodyEnd) {
        // The body of an answer to HEAD is not read.
        let is_whole = end.is_whole || self.method == Method::HEAD;
        (self.status, self.end) = (Some(status), BodyEnd { is_whole, ..end });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Self { method, route, unknown_path, attempt: (rollout, attempt), facts, status, end } = self;
        // What the call turned out to be of counts more than its path: the path may name a rollout alone, or nothing.
        let known = facts.attempt.get();
        tracing::info!(
            target: "fulgurite::access",
            method = method.as_str(),
            route = route.as_ref().map(MatchedPath::as_str),
            path = unknown_path.as_deref(),
            status = status.map(|status| status.as_u16()),
            milliseconds = (facts.arrived.elapsed().as_micros() as f64) / 1e3,
            bytes = end.bytes,
            "client_gone" = (!end.is_whole).then_some(true),
            rollout = known.map(|(rollout, _)| rollout).or(rollout.as_ref()),
            attempt = known.map(|(_, attempt)| attempt).or(attempt.as_ref()),
            model = facts.model().map(|model| model.name.as_str()),
            prompt_tokens = facts.prompt_tokens.get(),
            sampled_tokens = facts.prompt_tokens.get().map(|_| facts.delivered_tokens()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_route_is_told_by_the_words_of_apis_alone() {
        for (path, expected) in [
            ("/sk-verysecret", "/*"),
            ("/v1beta/models/tiny:generateContent", "/v1beta/models/*:generateContent"),
            ("/v1/files/file-7", "/v1/files/*"),
            ("/v1/chat/completions/", "/v1/chat/completions/"),
            ("/a:b", "/*"),
        ] {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            assert_eq!(path_of(&request), expected);
        }
    }
}
