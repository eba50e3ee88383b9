//! Connections: how each is answered, and how all of them come to their end.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use axum::{Router, http};
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

use crate::http::gate::{Gate, Phase};
use crate::http::half_closed::{Presence, SharedStream};
use crate::http::http2;
use crate::http::limited_stream::{ConnectionLimits, LimitedStream, Requests};
use crate::http::preface::PrefaceStream;

/// What is taken in of a client that was refused, in bytes.
const LAST_BYTES: u64 = 1 << 20;

/// Answers connections until the gate is closed and the last of them has ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, gate: Gate) {
    let mut connections = JoinSet::new();
    let mut phase = gate.phases();
    loop {
        tokio::select! {
            stream = accept(&listener) => {
                connections.spawn(connection(stream, router.clone(), limits, gate.clone(), gate.phases()));
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
    gate: Gate,
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
    let service = {
        let (router, gate) = (router.clone(), gate.clone());
        service_fn(move |request: http::Request<Incoming>| {
            let visit = gate.enter(&visited, request.version());
            Box::pin(visit.answer(request, router.clone(), limits.body_time))
        })
    };
    let mut connection = http1::Builder::new()
        // Whether the client has gone is found out here.
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        // More than the stream lets through, so that it is told here, and not by an answer without words.
        .max_header_size(2 * limits.head_bytes)
        .serve_connection(TokioIo::new(PrefaceStream::new(stream)), service);
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|context| match connection.poll_without_shutdown(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => presence.poll_disconnected(context).map(|()| None),
            }) => break ended,
            Ok(()) = phase.changed() => {
                let now = *phase.borrow_and_update();
                if now == Phase::Closed || requests.is_busy.load(Ordering::Acquire) {
                    // It ends with the answer that is under way.
                    std::pin::Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let stream = io.into_inner();
    let (is_http2, has_started) = (stream.is_http2(), stream.holds_back() || !read_buf.is_empty());
    let stream = stream.into_inner();
    let refusal = match ended {
        Some(Err(_)) if stream.head_is_too_large() => Some(too_large(limits.head_bytes)),
        Some(Err(error)) if error.is_timeout() && has_started => Some(too_late(limits.head_time)),
        _ => None,
    };
    drop(presence);
    let Some(stream) = stream.into_inner().into_inner() else { return };
    match is_http2 {
        true => http2::answer(stream, router, limits, gate, phase).await,
        false => close(stream, refusal, limits.head_time).await,
    }
}

/// Closes a connection, having said why if it was refused.
async fn close(mut stream: TcpStream, refusal: Option<String>, time: Duration) {
    let written = match &refusal {
        Some(refusal) => stream.write_all(refusal.as_bytes()).await,
        None => Ok(()),
    };
    // A client that has gone does not hear the end.
    if let Err(error) = written.and(stream.shutdown().await) {
        tracing::trace!(%error, "a connection ended before it was closed");
    } else if refusal.is_some() {
        hear_out(stream, time).await;
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
