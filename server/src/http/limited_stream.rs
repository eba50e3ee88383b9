//! A client's connection, as far as it may be used: how large a request's head may be, and how long the client may take
//! nothing in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// For the head of a request, from the end of the request before it, or the beginning of the connection. One that
    /// says nothing for so long is closed.
    pub(crate) head_time: Duration,
    /// Bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// For a request's body, from when it is asked for.
    pub(crate) body_time: Duration,
    /// For a client to take nothing in of what it is sent.
    pub(crate) write_time: Duration,
}

/// What is known of the requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// One is answered.
    pub(crate) is_busy: AtomicBool,
    /// How many heads have arrived.
    pub(crate) heads: AtomicUsize,
    /// The one that is answered has arrived to the last byte of its body.
    has_arrived: AtomicBool,
    /// An interim response may be sent: the client knows HTTP/1.1, and its response has not begun.
    takes_interim: AtomicBool,
}

impl Requests {
    /// One begins to be answered.
    pub(crate) fn begin(&self, takes_interim: bool) {
        self.has_arrived.store(false, Ordering::Release);
        self.takes_interim.store(takes_interim, Ordering::Release);
        self.heads.fetch_add(1, Ordering::AcqRel);
        self.is_busy.store(true, Ordering::Release);
    }

    /// Its body has been read to the end.
    pub(crate) fn arrive(&self) {
        self.has_arrived.store(true, Ordering::Release);
    }

    /// Its response begins.
    pub(crate) fn respond(&self) {
        self.takes_interim.store(false, Ordering::Release);
    }

    /// Whether one is answered that has arrived to its last byte.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_busy.load(Ordering::Acquire) && self.has_arrived.load(Ordering::Acquire)
    }

    /// Whether an interim response may be sent.
    pub(crate) fn takes_interim(&self) -> bool {
        self.is_whole() && self.takes_interim.load(Ordering::Acquire)
    }
}

/// A stream that breaks off where a limit is reached.
pub(crate) struct LimitedStream<S> {
    stream: S,
    requests: Arc<Requests>,
    head_limit: usize,
    /// Bytes of the head that arrives, and how many had arrived before it.
    head_bytes: usize,
    heads_before: usize,
    write_limit: Duration,
    /// Runs while the client takes nothing in.
    write_time: Option<Pin<Box<Sleep>>>,
}

impl<S> LimitedStream<S> {
    /// Breaks off a head of more than `head_limit` bytes, and a write that does not go on for `write_limit`.
    pub(crate) fn new(stream: S, requests: Arc<Requests>, head_limit: usize, write_limit: Duration) -> Self {
        Self { stream, requests, head_limit, head_bytes: 0, heads_before: 0, write_limit, write_time: None }
    }

    /// Whether a head was broken off.
    pub(crate) fn head_is_too_large(&self) -> bool {
        self.head_bytes > self.head_limit
    }

    /// The stream itself.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// How many bytes more may be read of a head, if one is awaited.
    fn head_room(&mut self) -> Option<usize> {
        let heads = self.requests.heads.load(Ordering::Acquire);
        if heads != self.heads_before {
            (self.heads_before, self.head_bytes) = (heads, 0);
        }
        let is_busy = self.requests.is_busy.load(Ordering::Acquire);
        // One byte more tells a head that is too large from one that ends there.
        (!is_busy).then(|| (self.head_limit + 1).saturating_sub(self.head_bytes))
    }

    /// What came of a write, unless it has waited for too long.
    fn in_time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_time = None;
            return written;
        }
        let time = self.write_time.get_or_insert_with(|| Box::pin(sleep(self.write_limit)));
        let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing in"));
        time.as_mut().poll(context).map(|()| late())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(room) = self.head_room() else { return Pin::new(&mut self.stream).poll_read(context, buffer) };
        if room == 0 {
            return Poll::Ready(Err(io::Error::other("the head is too large")));
        }
        let before = buffer.filled().len();
        let read = match room < buffer.remaining() {
            true => {
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
                let read = Pin::new(&mut self.stream).poll_read(context, &mut part);
                let bytes = part.filled().len();
                buffer.advance(bytes);
                read
            }
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        };
        self.head_bytes += buffer.filled().len() - before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn only_what_is_read_of_a_head_counts() {
        let (mut client, server) = duplex(1000);
        let requests = Arc::new(Requests::default());
        let mut limited = LimitedStream::new(server, Arc::clone(&requests), 10, NEVER);
        client.write_all(&[b'x'; 40]).await.unwrap();
        let mut buffer = [0; 30];
        assert_eq!(limited.read(&mut buffer).await.unwrap(), 11, "a byte more than a head may have");
        // The head had ended in there, and what comes now is its request's body.
        requests.heads.store(1, Ordering::Release);
        requests.is_busy.store(true, Ordering::Release);
        assert_eq!(limited.read(&mut buffer[..18]).await.unwrap(), 18);
        requests.is_busy.store(false, Ordering::Release);
        assert_eq!(limited.read(&mut buffer).await.unwrap(), 11);
        assert!(limited.head_is_too_large());
        assert!(limited.read(&mut buffer).await.is_err());
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_in_is_given_up_and_a_slow_one_is_not() {
        let (mut client, server) = duplex(4);
        let mut limited = LimitedStream::new(server, Arc::default(), 10, NEVER);
        #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
        let reading = tokio::spawn(async move {
            let mut reading = [0; 10];
            client.read_exact(&mut reading).await.map(|_| client)
        });
        limited.write_all(&[1; 10]).await.unwrap();
        let _client = reading.await.unwrap().unwrap();
        limited.write_limit = Duration::from_millis(1);
        let late = limited.write_all(&[1; 10]).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
