//! Connections: how long and how large a request's head may be, and how all of them come to their end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Router, http};
use fulgurite_store::Refused;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::access;

/// What the head of a request may take.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// From the end of the request before it, or the beginning of the connection. One that says nothing for so long is
    /// closed.
    pub time: Duration,
    /// Bytes.
    pub bytes: usize,
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

    fn enter(&self, busy: &Arc<AtomicBool>) -> Visit {
        self.inside.send_modify(|inside| *inside += 1);
        busy.store(true, Ordering::Release);
        Visit { inside: self.inside.clone(), busy: Arc::clone(busy) }
    }
}

/// A request that is inside; it has been answered when this is dropped.
struct Visit {
    inside: watch::Sender<usize>,
    /// Of its connection.
    busy: Arc<AtomicBool>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
        self.inside.send_modify(|inside| *inside -= 1);
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

/// A middleware that refuses what comes when the server ends.
pub async fn refuse_at_the_end(
    State(door): State<Door>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    if *door.phase.borrow() == Phase::Open {
        return next.run(request).await;
    }
    let (parts, _) = request.into_parts();
    access::refusal(route.as_ref().map(MatchedPath::as_str), &parts, Refused::ShuttingDown)
}

/// Answers connections until the door is closed and the last of them has ended.
pub async fn serve(listener: TcpListener, router: Router, limits: HeadLimits, door: Door) {
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
    limits: HeadLimits,
    door: Door,
    mut phase: watch::Receiver<Phase>,
) {
    // A token is sent when it is sampled, however few bytes it has.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection waits before it sends little");
    }
    let busy = Arc::new(AtomicBool::new(false));
    let visited = Arc::clone(&busy);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let visit = door.enter(&visited);
        let router = router.clone();
        Box::pin(async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            Ok::<_, Infallible>(response.map(|body| Body::new(VisitedBody { body, _visit: visit })))
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.time)
        .max_header_size(limits.bytes)
        .serve_connection(TokioIo::new(stream), service);
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|context| connection.poll_without_shutdown(context)) => break ended,
            Ok(()) = phase.changed() => {
                let now = *phase.borrow_and_update();
                if now == Phase::Closed || busy.load(Ordering::Acquire) {
                    // It ends with the answer that is under way.
                    Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let mut stream = io.into_inner();
    let is_late = ended.as_ref().is_err_and(hyper::Error::is_timeout) && !read_buf.is_empty();
    let said = if is_late { stream.write_all(too_late(limits.time).as_bytes()).await } else { Ok(()) };
    // A client that has gone does not hear the end.
    if let Err(error) = said.and(stream.shutdown().await) {
        tracing::trace!(%error, "a connection ended before it was closed");
    }
}

/// The answer to a request whose head did not arrive in time. Of such a one no dialect is known.
fn too_late(limit: Duration) -> String {
    let text =
        format!("the request's head did not arrive within {} seconds (server.header_seconds)\n", limit.as_secs_f64());
    format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: \
         {}\r\n\r\n{text}",
        text.len()
    )
}
