//! Halves of surrogate pairs in a body: they are replaced before it is read, and the answer's header says so.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use fulgurite_types::MendedJson;

const WARNING: &str = "x-fulgurite-warning";

tokio::task_local! {
    /// What was replaced in the body of the request that this task answers.
    static REPLACED: OnceLock<HeaderValue>;
}

/// Answers a request, and says in a header what was replaced in its body.
pub(super) async fn note_replaced(request: Request, next: Next) -> Response {
    let answered = async move {
        let response = next.run(request).await;
        (response, REPLACED.with(|replaced| replaced.get().cloned()))
    };
    let (mut response, replaced) = REPLACED.scope(OnceLock::new(), answered).await;
    if let Some(replaced) = replaced {
        response.headers_mut().insert(WARNING, replaced);
    }
    response
}

/// A body of JSON without halves of surrogate pairs, which no reader of Unicode takes.
pub(crate) fn mended(body: Bytes) -> Bytes {
    let Some(mended) = MendedJson::of(&body) else { return body };
    let warning = mended.warning();
    tracing::info!("a request is read with {warning}");
    // Bodies that are read outside of a request have nobody to tell.
    let _ = REPLACED.try_with(|replaced| HeaderValue::from_str(&warning).map(|warning| replaced.set(warning)));
    mended.text.into()
}
