use axum::http::header::{
    ACCEPT_ENCODING, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use fulgurite_backends::UpstreamRequest;
use serde_json::{Value, json};

use super::route::Route;
use crate::models::served_model::UpstreamModel;
use crate::requests::exact_json::object_text;
use crate::requests::incoming_request::IncomingRequest;

/// Headers of one connection, which are not forwarded.
const OF_CONNECTION: [HeaderName; 8] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
/// The client's headers that end here. Forwarded bodies must be readable for the record, and so are not compressed.
const OF_CLIENT: [HeaderName; 5] = [HOST, AUTHORIZATION, COOKIE, EXPECT, ACCEPT_ENCODING];
/// Keys, and the accounts that they belong to.
const KEYS: [&str; 5] = ["x-api-key", "x-goog-api-key", "api-key", "openai-organization", "openai-project"];
/// What ours begin with.
const OURS: [&str; 2] = ["x-fulgurite-", "x-agl-"];
const OUR_IDS: [&str; 2] = ["x-rollout-id", "x-attempt-id"];
/// A shorter key is no secret.
const SHORTEST_SECRET: usize = 16;
/// The upstream's that would be taken for ours.
const OF_SERVER: [HeaderName; 3] = [SET_COOKIE, ALT_SVC, STRICT_TRANSPORT_SECURITY];

/// The forwarded request: unchanged but for the model's name, our own headers and the client's key.
pub(super) fn request_of(
    model: &UpstreamModel,
    route: Route,
    incoming: &IncomingRequest,
    affinity: Option<String>,
) -> UpstreamRequest {
    UpstreamRequest {
        method: Method::POST,
        path: route.path().to_owned(),
        query: incoming.query.clone(),
        headers: request_headers(&incoming.headers),
        body: body(model, incoming),
        affinity,
    }
}

fn body(model: &UpstreamModel, incoming: &IncomingRequest) -> Bytes {
    if incoming.fields.get("model").and_then(Value::as_str) == Some(&model.upstream_name) {
        return incoming.body.clone();
    }
    let mut fields = incoming.fields.clone();
    fields.insert("model".to_owned(), json!(model.upstream_name));
    Bytes::from(object_text(&fields, &incoming.body))
}

/// The client's headers that are forwarded.
pub(super) fn request_headers(headers: &HeaderMap) -> HeaderMap {
    kept(headers, |name, _| {
        let text = name.as_str();
        !OF_CLIENT.contains(name)
            && !KEYS.contains(&text)
            && !OUR_IDS.contains(&text)
            && !OURS.iter().any(|prefix| text.starts_with(prefix))
    })
}

/// The upstream's headers that come back. One that holds its key does not.
pub(super) fn response_headers(headers: &HeaderMap, key: Option<&str>) -> HeaderMap {
    let key = secret(key);
    kept(headers, |name, value| {
        let is_secret = key.is_some_and(|key| find(value.as_bytes(), key).is_some());
        !OF_SERVER.contains(name) && !is_secret
    })
}

fn kept(headers: &HeaderMap, keeps: impl Fn(&HeaderName, &HeaderValue) -> bool) -> HeaderMap {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> =
        named.flat_map(|names| names.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    let of_connection = |name: &HeaderName| {
        OF_CONNECTION.contains(name) || name == "keep-alive" || named.iter().any(|other| other == name.as_str())
    };
    let mut kept = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, value)| !of_connection(name) && keeps(name, value)) {
        kept.append(name, value.clone());
    }
    kept
}

/// Bytes without the upstream's key, which some servers repeat where they refuse it.
pub(super) fn without_key(bytes: Vec<u8>, key: Option<&str>) -> Bytes {
    let Some(key) = secret(key) else { return bytes.into() };
    let mut left = Vec::new();
    let mut rest = &bytes[..];
    while let Some(at) = find(rest, key) {
        left.extend_from_slice(&rest[..at]);
        left.extend_from_slice(b"[key]");
        rest = &rest[at + key.len()..];
    }
    if left.is_empty() && rest.len() == bytes.len() {
        return bytes.into();
    }
    left.extend_from_slice(rest);
    left.into()
}

/// The key, if it can be one: servers that need none are given words such as `EMPTY` or `none`, which answers contain too.
fn secret(key: Option<&str>) -> Option<&[u8]> {
    key.map(str::as_bytes).filter(|key| key.len() >= SHORTEST_SECRET)
}

/// Where the bytes that are sought begin; they are some.
fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes.windows(sought.len()).position(|window| window == sought)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let entries =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        entries.collect()
    }

    #[test]
    fn the_clients_headers_go_on_without_its_key_and_without_ours() {
        let headers = map(&[
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("x-goog-api-key", "client"),
            ("openai-organization", "clients"),
            ("cookie", "c"),
            ("host", "here"),
            ("content-length", "7"),
            ("accept-encoding", "br"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("x-rollout-id", "r"),
            ("x-fulgurite-session", "s"),
            ("x-agl-paused", "1"),
            ("anthropic-beta", "b"),
            ("x-stainless-retry-count", "1"),
            ("idempotency-key", "k"),
            ("content-type", "application/json"),
        ]);
        let expected = map(&[
            ("anthropic-beta", "b"),
            ("x-stainless-retry-count", "1"),
            ("idempotency-key", "k"),
            ("content-type", "application/json"),
        ]);
        assert_eq!(request_headers(&headers), expected);
    }

    #[test]
    fn the_upstreams_headers_come_back_without_its_key_and_what_is_of_its_connection() {
        let headers = map(&[
            ("x-request-id", "req_1"),
            ("retry-after", "3"),
            ("transfer-encoding", "chunked"),
            ("set-cookie", "c"),
            ("x-echo", "Bearer sk-of-the-upstream"),
        ]);
        let expected = map(&[("x-request-id", "req_1"), ("retry-after", "3")]);
        assert_eq!(response_headers(&headers, Some("sk-of-the-upstream")), expected);
    }

    #[test]
    fn a_key_leaves_in_no_body() {
        let cleaned = |text: &str, key| without_key(text.as_bytes().to_vec(), key);
        let key = Some("sk-of-the-upstream");
        assert_eq!(cleaned("no sk-of-the-upstream, and sk-of-the-upstream.", key), "no [key], and [key].");
        assert_eq!(cleaned("sk-of-the-upstream", key), "[key]");
        assert_eq!(cleaned("fine", key), "fine");
        assert_eq!(cleaned("fine", None), "fine");
    }

    #[test]
    fn a_word_in_the_place_of_a_key_is_left_in_what_is_said() {
        for word in ["", "EMPTY", "none", "ollama", "test"] {
            let answer = format!("a {word} b");
            assert_eq!(without_key(answer.clone().into_bytes(), Some(word)), answer);
            let headers = map(&[("x-kind", "none, EMPTY, ollama, test")]);
            assert_eq!(response_headers(&headers, Some(word)), headers);
        }
    }
}
