//! Whether a client is still there while its request is answered, also one that has closed its half of the connection.
//!
//! From here a client that sends nothing more looks like one that has closed its socket and gone, which has to end the work
//! for it. The two differ in what they do with more bytes: the system of one that is gone answers them with a reset. So one
//! that closed its half is sent an interim response, `100 Continue`, which clients of HTTP/1.1 read past (RFC 9110, 15.2).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::http::limited_stream::Requests;

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Between two interim responses, each of which finds out whether the client is still there.
const INTERVAL: Duration = Duration::from_secs(5);

/// A connection that is read and written by one, and watched by another. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedStream {
    stream: Arc<TcpStream>,
    /// The client takes nothing in just now: some of what it was sent has not left yet.
    is_stuck: Arc<AtomicBool>,
}

impl SharedStream {
    /// Shares `stream`.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), is_stuck: Arc::default() }
    }

    /// The stream itself, for the last that has it.
    pub(crate) fn into_inner(self) -> Option<TcpStream> {
        Arc::into_inner(self.stream)
    }

    fn poll_try_write(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = loop {
            match self.stream.poll_write_ready(context)? {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(()) => match write(&self.stream) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    written => break Poll::Ready(written),
                },
            }
        };
        self.is_stuck.store(written.is_pending(), Ordering::Release);
        written
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try_write(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Whoever takes the stream out shuts it down.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Whether the client of a connection is still there.
pub(crate) struct Presence {
    stream: SharedStream,
    requests: Arc<Requests>,
    /// Ends when the client has gone. There is one once the client has closed its half.
    departure: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Presence {
    /// Watches a connection, and knows of the requests that come over it.
    pub(crate) fn new(stream: SharedStream, requests: Arc<Requests>) -> Self {
        Self { stream, requests, departure: None }
    }

    /// Is ready when the client of the request that is answered has gone. Nothing else may read from the connection
    /// meanwhile; before the request has arrived whole, and between requests, reading finds the end.
    pub(crate) fn poll_disconnected(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.requests.is_whole() {
            return Poll::Pending;
        }
        if self.departure.is_none() {
            if !ready!(self.poll_half_closed(context)) {
                return Poll::Pending;
            }
            if !self.requests.takes_interim() || self.stream.is_stuck.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            self.departure = Some(Box::pin(departure(Arc::clone(&self.stream.stream), Arc::clone(&self.requests))));
        }
        self.departure.as_mut().map_or(Poll::Pending, |departure| departure.as_mut().poll(context))
    }

    /// Whether the client has closed its half, and not sent its next request.
    fn poll_half_closed(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut byte = [0];
        let peeked = ready!(self.stream.stream.poll_peek(context, &mut ReadBuf::new(&mut byte)));
        Poll::Ready(peeked.map_or(true, |bytes| bytes == 0))
    }
}

/// Ends when the client that closed its half of `stream` is found to have gone.
async fn departure(stream: Arc<TcpStream>, requests: Arc<Requests>) {
    loop {
        if requests.takes_interim() && !send_interim(&stream) {
            return;
        }
        tokio::select! {
            _ = stream.ready(Interest::ERROR) => return,
            () = sleep(INTERVAL) => {}
        }
    }
}

/// Whether the connection still holds. A response never begins in the middle of an interim one.
fn send_interim(stream: &TcpStream) -> bool {
    match stream.try_write(INTERIM) {
        Ok(bytes) => bytes == INTERIM.len(),
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
