//! Connections: what each may take, and how all of them come to their end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::{Router, http};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::serve::half_closed::{Presence, SharedStream};
use crate::serve::limited_stream::{LimitedStream, Requests};
use crate::serve::timed_body::TimedBody;

/// What is taken in of a client that was refused, in bytes.
const LAST_BYTES: u64 = 1 << 20;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// For the head of a request, from the end of the request before it, or the beginning of the connection. One that
    /// says nothing for so long is closed.
    pub head_time: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// For a request's body, from when it is asked for.
    pub body_time: Duration,
    /// For a client to take nothing in of what it is sent.
    pub write_time: Duration,
}

/// What is let in, and how far the end has come. Clones share it.
#[derive(Clone)]
pub struct Door {
    phase: watch::Sender<Phase>,
    /// Requests that have been let in and are not answered to their last byte.
    inside: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is inside is finished. Connections that wait for a request stay, so that it can be refused.
    Draining,
    /// Connections end.
    Closed,
}

impl Door {
    /// An open door.
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Open), inside: watch::Sender::new(0) }
    }

    /// Lets nothing in from now on. Ends once everything that is inside has been answered.
    pub async fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
        // The sender is ours, so that the wait cannot fail.
        let _ = self.inside.subscribe().wait_for(|inside| *inside == 0).await;
    }

    /// Ends every connection that has nothing more to say, and the others once they have said it.
    pub fn close(&self) {
        self.phase.send_replace(Phase::Closed);
    }

    /// Whether what comes now is let in.
    pub fn is_open(&self) -> bool {
        *self.phase.borrow() == Phase::Open
    }

    fn enter(&self, requests: &Arc<Requests>, version: http::Version) -> Visit {
        // Nobody waits for more of them.
        self.inside.send_if_modified(|inside| {
            *inside += 1;
            false
        });
        requests.begin(version == http::Version::HTTP_11);
        Visit { inside: self.inside.clone(), requests: Arc::clone(requests) }
    }
}

/// A request that is inside; it has been answered when this is dropped.
struct Visit {
    inside: watch::Sender<usize>,
    /// Of its connection.
    requests: Arc<Requests>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.requests.is_busy.store(false, Ordering::Release);
        self.inside.send_if_modified(|inside| {
            *inside -= 1;
            *inside == 0
        });
    }
}

/// A response's body, with which its request's visit ends.
struct VisitedBody {
    body: Body,
    _visit: Visit,
}

impl http_body::Body for VisitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers connections until the door is closed and the last of them has ended.
pub async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, door: Door) {
    let mut connections = JoinSet::new();
    let mut phase = door.phase.subscribe();
    loop {
        tokio::select! {
            stream = accept(&listener) => {
                connections.spawn(connection(stream, router.clone(), limits, door.clone(), door.phase.subscribe()));
            }
            Some(ended) = connections.join_next() => report(ended),
            Ok(_) = phase.wait_for(|phase| *phase != Phase::Open) => break,
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection broke");
    }
}

/// The next connection. What goes wrong with one does not end the others.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_the_clients(error.kind()) => {}
            Err(error) => {
                // Often there are no files left: some connection has to end first.
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_the_clients(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// Answers the requests of one connection.
async fn connection(
    stream: TcpStream,
    router: Router,
    limits: ConnectionLimits,
    door: Door,
    mut phase: watch::Receiver<Phase>,
) {
    // A token is sent when it is sampled, however few bytes it has.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection waits before it sends little");
    }
    let requests = Arc::new(Requests::default());
    let visited = Arc::clone(&requests);
    let stream = SharedStream::new(stream);
    let mut presence = Presence::new(stream.clone(), Arc::clone(&requests));
    let stream = LimitedStream::new(stream, Arc::clone(&requests), limits.head_bytes, limits.write_time);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let visit = door.enter(&visited, request.version());
        let router = router.clone();
        Box::pin(async move {
            let requests = Arc::clone(&visit.requests);
            let request = request.map(|body| Body::new(TimedBody::new(body, limits.body_time, requests)));
            let response = router.oneshot(request).await?;
            visit.requests.respond();
            Ok::<_, Infallible>(response.map(|body| VisitedBody { body, _visit: visit }))
        })
    });
    let mut connection = http1::Builder::new()
        // Whether the client has gone is found out here.
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        // More than the stream lets through, so that it is told here, and not by an answer without words.
        .max_header_size(2 * limits.head_bytes)
        .serve_connection(TokioIo::new(stream), service);
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|context| match connection.poll_without_shutdown(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => presence.poll_gone(context).map(|()| None),
            }) => break ended,
            Ok(()) = phase.changed() => {
                let now = *phase.borrow_and_update();
                if now == Phase::Closed || requests.is_busy.load(Ordering::Acquire) {
                    // It ends with the answer that is under way.
                    Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let stream = io.into_inner();
    let refusal = match ended {
        Some(Err(_)) if stream.head_is_too_large() => Some(too_large(limits.head_bytes)),
        Some(Err(error)) if error.is_timeout() && !read_buf.is_empty() => Some(too_late(limits.head_time)),
        _ => None,
    };
    drop(presence);
    let Some(mut stream) = stream.into_inner().into_inner() else { return };
    let said = match &refusal {
        Some(refusal) => stream.write_all(refusal.as_bytes()).await,
        None => Ok(()),
    };
    // A client that has gone does not hear the end.
    if let Err(error) = said.and(stream.shutdown().await) {
        tracing::trace!(%error, "a connection ended before it was closed");
    } else if refusal.is_some() {
        hear_out(stream, limits.head_time).await;
    }
}

/// Takes in what a client still sends, for a while: a connection that is closed on it takes along what it was told.
async fn hear_out(stream: TcpStream, time: Duration) {
    let mut rest = stream.take(LAST_BYTES);
    if let Ok(Err(error)) = timeout(time, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await {
        tracing::trace!(%error, "a connection ended while it was heard out");
    }
}

/// The answer to a request whose head did not arrive in time.
fn too_late(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    let message = format!("the request's head did not arrive within {seconds} seconds (server.header_seconds)");
    refusal("408 Request Timeout", "request_timeout", &message)
}

/// The answer to a request whose head has more bytes than it may.
fn too_large(limit: usize) -> String {
    let message = format!("the request's head is over the limit of {limit} bytes (server.header_limit_bytes)");
    refusal("431 Request Header Fields Too Large", "header_too_large", &message)
}

/// The answer to a request whose head is not known, and so neither is its dialect: the one that most clients read.
fn refusal(status: &str, code: &str, message: &str) -> String {
    let error = json!({ "message": message, "type": "invalid_request_error", "param": null, "code": code });
    let body = json!({ "error": error }).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
