//! By what a request is known to come from a Google client, and what its path and query say.

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;

/// What a model is to do, behind the colon that follows its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    GenerateContent,
    StreamGenerateContent,
    CountTokens,
}

impl Method {
    /// The model and the method of a path's last part. A model's own name may have a colon.
    pub(crate) fn of_path(path: &str) -> Option<(&str, Self)> {
        let (model, method) = path.rsplit_once(':')?;
        let method = match method {
            "generateContent" => Self::GenerateContent,
            "streamGenerateContent" => Self::StreamGenerateContent,
            "countTokens" => Self::CountTokens,
            _ => return None,
        };
        Some((model, method))
    }
}

/// Whether a path ends in a method of a model, which no other dialect has.
fn is_method_of_model(path: &str) -> bool {
    Method::of_path(path).is_some()
}

/// Whether a request comes from a Google client: by its headers, or by a path that only this dialect has.
pub(crate) fn is_google_client(uri: &Uri, headers: &HeaderMap) -> bool {
    has_own_path(uri) || headers.contains_key("x-goog-api-key") || headers.contains_key("x-goog-api-client")
}

fn has_own_path(uri: &Uri) -> bool {
    let path = uri.path();
    is_method_of_model(path) || path.split('/').any(|segment| segment == "v1beta")
}

#[derive(Deserialize)]
struct KeyQuery {
    key: Option<String>,
}

/// The key in a query, where Google's clients may send theirs: of a path that only this dialect has, so that no other's
/// query, which may be passed on, is a secret.
pub fn key_in_query(uri: &Uri) -> Option<String> {
    let query = has_own_path(uri).then(|| Query::<KeyQuery>::try_from_uri(uri).ok()).flatten();
    query.and_then(|Query(KeyQuery { key })| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_follows_the_last_colon() {
        let of_path = |path| Method::of_path(path).map(|(model, _)| model);
        assert_eq!(of_path("tiny:generateContent"), Some("tiny"));
        assert_eq!(of_path("org/tiny:0.6b:countTokens"), Some("org/tiny:0.6b"));
        assert_eq!(of_path("tiny:streamGenerateContent"), Some("tiny"));
        assert!(["tiny", "tiny:embedContent", "tiny:0.6b", "generateContent"].map(of_path).iter().all(Option::is_none));
    }

    #[test]
    fn a_key_is_read_in_the_query_of_this_dialects_paths_alone() {
        for (uri, key) in [
            ("/v1beta/models/tiny:generateContent?key=k", Some("k")),
            ("/rollout/r/attempt/a/v1beta/models?alt=sse&key=fgr-a%2Eb", Some("fgr-a.b")),
            ("/v1/models/tiny:countTokens?key=k", Some("k")),
            ("/v1/models/tiny:countTokens", None),
            ("/v1/chat/completions?key=k", None),
            ("/v1/models?key=k", None),
        ] {
            assert_eq!(key_in_query(&uri.parse().unwrap()).as_deref(), key, "{uri}");
        }
    }

    #[test]
    fn a_client_is_known_by_its_path_or_its_headers() {
        let none = HeaderMap::new();
        let is_google = |path: &str, headers: &HeaderMap| is_google_client(&path.parse().unwrap(), headers);
        assert!(is_google("/v1beta/nothing", &none) && is_google("/v1/models/a:generateContent", &none));
        assert!(!is_google("/v1/models/a:b", &none) && !is_google("/v1/models", &none));
        let keyed = HeaderMap::from_iter([("x-goog-api-key".parse().unwrap(), "k".parse().unwrap())]);
        assert!(is_google("/v1/models", &keyed));
    }
}
