//! The files of the page.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Nothing is loaded from elsewhere and nothing runs but the page's own script, whatever stands in an answer of a model.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const INDEX: File =
    File { name: "index.html", kind: "text/html; charset=utf-8", bytes: include_bytes!("../built/index.html") };

/// The page's script.
pub(super) const SCRIPT: &str = include_str!("../built/page.js");
/// The page's style sheet.
pub(super) const STYLE: &str = include_str!("../built/page.css");

const FILES: [File; 3] = [
    File { name: "page.js", kind: "text/javascript; charset=utf-8", bytes: SCRIPT.as_bytes() },
    File { name: "page.css", kind: "text/css; charset=utf-8", bytes: STYLE.as_bytes() },
    File { name: "icon.svg", kind: "image/svg+xml", bytes: include_bytes!("../built/icon.svg") },
];

/// `GET /`.
pub(super) async fn index(headers: HeaderMap) -> Response {
    answer(&INDEX, &headers)
}

/// `GET /ui/{file}`.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => answer(file, &headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A file, unless the browser has it.
fn answer(file: &File, request_headers: &HeaderMap) -> Response {
    let tag = tag(file.bytes);
    let fixed = [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // It is asked each time whether it is still the same: the program may be another by then.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let is_known = request_headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.bytes.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Stands for a file's bytes (FNV-1a, which tells versions of a file apart and guards nothing).
fn tag(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = index(HeaderMap::new()).await;
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        let kinds: Vec<_> = first.headers().get_all(header::CONTENT_TYPE).iter().collect();
        assert_eq!(kinds, ["text/html; charset=utf-8"]);
        let known = HeaderMap::from_iter([(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone())]);
        assert_eq!(index(known).await.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file(Path("../Cargo.toml".to_owned()), HeaderMap::new()).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn the_page_loads_nothing_but_its_own_files() {
        let index = std::str::from_utf8(INDEX.bytes).unwrap();
        for attribute in ["src=\"", "href=\""] {
            for (at, _) in index.match_indices(attribute) {
                let from = &index[at + attribute.len()..];
                assert!(FILES.iter().any(|file| from.starts_with(&format!("/ui/{}\"", file.name))), "{from}");
            }
        }
        let bytes: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!(bytes < 600_000, "{bytes} bytes before they are compressed");
    }
}
