//! Over which wires hosts reach the tools.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

use crate::server::TrainingTools;

/// Bytes of a message, which is a line.
const LINE: usize = 16 << 20;
/// Sessions over HTTP at a time.
const SESSIONS: usize = 64;

/// Serves the host that has started this process, over standard input and output, until it goes away.
///
/// # Errors
/// If what it says is not the protocol.
pub async fn serve_standard_streams(tools: &TrainingTools) -> std::io::Result<()> {
    let (input, output) = stdio();
    let served = tools.clone().serve((Bounded { input, line: 0 }, output)).await;
    let ended = match served {
        Ok(running) => running.waiting().await.map(drop).map_err(std::io::Error::other),
        Err(error) => Err(std::io::Error::other(error)),
    };
    tools.close().await;
    ended
}

/// The same below `/mcp`, as streamable HTTP. Who may call is up to who serves it.
pub fn http_routes(tools: &TrainingTools) -> Router {
    let tools = tools.clone();
    // Hosts and origins are looked at by the server that it is part of.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().with_max_request_body_bytes(LINE);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(tools.clone()), sessions.clone(), config);
    let limit = SessionLimit { sessions, ..SessionLimit::default() };
    Router::new().route_service("/mcp", service).layer(from_fn_with_state(limit, bounded))
}

/// What lets in requests that are of no session yet.
#[derive(Clone, Default)]
struct SessionLimit {
    sessions: Arc<LocalSessionManager>,
    /// Requests that may be about to begin a session.
    coming: Arc<AtomicUsize>,
}

/// One request of those that are coming.
struct Coming(Arc<AtomicUsize>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SessionLimit {
    /// # Errors
    /// If there may be no session more, with how many there are.
    async fn enter(&self) -> Result<Coming, usize> {
        let coming = self.coming.fetch_add(1, Ordering::SeqCst) + 1;
        let place = Coming(self.coming.clone());
        let open = self.sessions.sessions.read().await.len();
        if open + coming > SESSIONS { Err(open) } else { Ok(place) }
    }
}

/// Refuses a host that would begin one session more than there may be. Sessions end when their hosts say so, or after five
/// silent minutes.
async fn bounded(State(limit): State<SessionLimit>, request: Request, next: Next) -> Response {
    if request.headers().contains_key("mcp-session-id") {
        return next.run(request).await;
    }
    match limit.enter().await {
        Ok(_coming) => next.run(request).await,
        Err(open) => {
            let message = format!(
                "{open} sessions are open, and {SESSIONS} are the most: end one (DELETE with its mcp-session-id), or try again \
                 when one has been silent for five minutes"
            );
            let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "60")], Json(body)).into_response()
        }
    }
}

/// Input that ends, with an error, where a line is too long to be kept.
struct Bounded<Input> {
    input: Input,
    /// Bytes since the last end of a line.
    line: usize,
}

impl<Input: AsyncRead + Unpin> AsyncRead for Bounded<Input> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.line = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => read.len() - end - 1,
            None => self.line + read.len(),
        };
        match self.line > LINE {
            true => Poll::Ready(Err(std::io::Error::other(format!("a message has more than {LINE} bytes")))),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_without_an_end_is_not_kept_for_ever() {
        let read = async |text: &[u8]| {
            let mut all = Vec::new();
            Bounded { input: text, line: 0 }.read_to_end(&mut all).await.map(|_| all.len())
        };
        let lines = [vec![b'x'; LINE], vec![b'\n'], vec![b'x'; LINE]].concat();
        assert_eq!(read(&lines).await.unwrap(), lines.len());
        assert!(read(&vec![b'x'; LINE + 1]).await.unwrap_err().to_string().contains("more than"));
    }
}
