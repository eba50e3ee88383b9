//! The base URL that a client should have had, where its calls arrive at a path that is no route: most often one `/v1` too many or
//! too few.

use axum::http::{HeaderMap, Uri, header};

/// What clients call below the base URL that their users set.
const CALLS: [KnownCall; 8] = [
    KnownCall { words: &["chat", "completions"], below: Below::Version },
    KnownCall { words: &["completions"], below: Below::Version },
    KnownCall { words: &["embeddings"], below: Below::Version },
    KnownCall { words: &["responses"], below: Below::Version },
    KnownCall { words: &["messages"], below: Below::Root },
    KnownCall { words: &["inference", "v1", "generate"], below: Below::Root },
    KnownCall { words: &["tokenize"], below: Below::Root },
    KnownCall { words: &["detokenize"], below: Below::Root },
];

/// How a client makes the call that it meant.
#[derive(Debug)]
pub(crate) enum RightCall {
    /// Below this base URL.
    BaseUrl(String),
    /// At this path.
    Path(String),
}

struct KnownCall {
    words: &'static [&'static str],
    below: Below,
}

/// Whether the base URL ends in `/v1`, or its clients write that themselves.
#[derive(Clone, Copy)]
enum Below {
    Version,
    Root,
}

/// The base URL for a client that made this call; `None` for what is no model call.
pub(crate) fn right_base_url(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let words: Vec<&str> = uri.path().split('/').filter(|word| !word.is_empty()).collect();
    let base = attributed_base(&words);
    let rest = &words[base.length..];
    let below = (0..rest.len()).find_map(|place| below(&rest[place..], headers))?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.host())?;
    let forwarded = headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok());
    let scheme = if forwarded == Some("https") || uri.scheme_str() == Some("https") { "https" } else { "http" };
    let version = match (base.kind, below) {
        (BaseKind::Gateway, _) | (_, Below::Version) => "/v1",
        (_, Below::Root) => "",
    };
    Some(format!("{scheme}://{host}{}{version}", base.path))
}

/// The path that a client meant which ends in a slash too many, of those that it calls.
pub(crate) fn without_last_slash(path: &str) -> Option<&str> {
    let right = path.strip_suffix('/')?;
    let words: Vec<&str> = right.split('/').skip(1).collect();
    let rest = &words[attributed_base(&words).length..];
    let called = rest.strip_prefix(&["v1"]);
    let is_call = |call: &KnownCall| match call.below {
        Below::Version => called == Some(call.words),
        Below::Root => called == Some(call.words) || rest == call.words,
    };
    (CALLS.iter().any(is_call) || called == Some(&["models"])).then_some(right)
}

/// What a path's words call, if they begin with a call.
fn below(words: &[&str], headers: &HeaderMap) -> Option<Below> {
    if let Some(call) = CALLS.iter().find(|call| words.starts_with(call.words)) {
        return Some(call.below);
    }
    let is_models = words.first() == Some(&"models");
    let writes_version = words.last().is_some_and(|word| word.contains(':'))
        || ["anthropic-version", "x-goog-api-key", "x-goog-api-client"].iter().any(|name| headers.contains_key(*name));
    is_models.then_some(if writes_version { Below::Root } else { Below::Version })
}

/// What a base URL keeps of a path: whose attempt's calls they are.
struct Base {
    kind: BaseKind,
    path: String,
    /// Words of the path that it takes.
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BaseKind {
    Server,
    Attempt,
    Gateway,
}

fn attributed_base(words: &[&str]) -> Base {
    let (kind, length) = match words {
        ["proxy", "rollout", _, "attempt", _, "mode", _, "openai", ..] => (BaseKind::Gateway, 8),
        ["rollout", _, "attempt", _, ..] => (BaseKind::Attempt, 4),
        // Where the first words are the version's, the attempt's come after them.
        ["v1" | "v1beta", "rollout", _, "attempt", _, ..] => {
            return Base { kind: BaseKind::Attempt, path: format!("/{}", words[1..5].join("/")), length: 5 };
        }
        _ => return Base { kind: BaseKind::Server, path: String::new(), length: 0 },
    };
    Base { kind, path: format!("/{}", words[..length].join("/")), length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(path: &str, header: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "h:1".parse().unwrap());
        for (name, value) in header {
            headers.insert(*name, value.parse().unwrap());
        }
        right_base_url(&path.parse().unwrap(), &headers)
    }

    #[test]
    fn a_slash_at_the_end_of_a_call_is_one_too_many() {
        for path in [
            "/v1/chat/completions",
            "/v1/models",
            "/v1/messages",
            "/tokenize",
            "/rollout/r/attempt/a/v1/responses",
            "/proxy/rollout/r/attempt/a/mode/train/openai/v1/chat/completions",
        ] {
            assert_eq!(without_last_slash(&format!("{path}/")), Some(path));
            assert_eq!(without_last_slash(path), None);
        }
        for path in
            ["/", "/v1/", "/v1/chat/completions//", "/chat/completions/", "/v1//chat/completions/", "/v1/v1/models/"]
        {
            assert_eq!(without_last_slash(path), None, "{path}");
        }
    }

    #[test]
    fn a_doubled_or_missing_version_names_the_right_base_url() {
        let attempt = "/rollout/r/attempt/a";
        let gateway = "/proxy/rollout/r/attempt/a/mode/train/openai";
        for (path, expected) in [
            ("/v1/v1/chat/completions", "http://h:1/v1".to_owned()),
            ("/chat/completions", "http://h:1/v1".to_owned()),
            ("/v1//chat/completions/", "http://h:1/v1".to_owned()),
            ("/openai/deployments/m/chat/completions", "http://h:1/v1".to_owned()),
            ("/v1/v1/completions", "http://h:1/v1".to_owned()),
            ("/embeddings", "http://h:1/v1".to_owned()),
            ("/responses/resp_1/cancel", "http://h:1/v1".to_owned()),
            ("/v1/v1/responses", "http://h:1/v1".to_owned()),
            ("/models", "http://h:1/v1".to_owned()),
            ("/messages", "http://h:1".to_owned()),
            ("/v1/v1/messages", "http://h:1".to_owned()),
            ("/v1/v1/messages/count_tokens", "http://h:1".to_owned()),
            ("/models/m:generateContent", "http://h:1".to_owned()),
            ("/v1/v1beta/models/m:streamGenerateContent", "http://h:1".to_owned()),
            ("/v1beta/v1beta/models/m:countTokens", "http://h:1".to_owned()),
            (&format!("{attempt}/v1/v1/chat/completions"), format!("http://h:1{attempt}/v1")),
            (&format!("/v1{attempt}/chat/completions"), format!("http://h:1{attempt}/v1")),
            (&format!("{attempt}/v1/v1/messages"), format!("http://h:1{attempt}")),
            (&format!("{attempt}/v1beta/v1beta/models/m:generateContent"), format!("http://h:1{attempt}")),
            (&format!("{gateway}/chat/completions"), format!("http://h:1{gateway}/v1")),
        ] {
            assert_eq!(base(path, &[]), Some(expected), "{path}");
        }
        assert_eq!(base("/models", &[("x-goog-api-key", "k")]).unwrap(), "http://h:1");
        assert_eq!(base("/chat/completions", &[("x-forwarded-proto", "https")]).unwrap(), "https://h:1/v1");
        for path in ["/", "/favicon.ico", "/v1/fulgurite/none", "/rollout/r/attempt/a/x", "/chat"] {
            assert_eq!(base(path, &[]), None, "{path}");
        }
    }
}
