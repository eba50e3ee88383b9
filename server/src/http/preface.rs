//! Which HTTP a client speaks: one that knows it is answered in HTTP/2 begins with a fixed preface (RFC 9113, 3.4), which no
//! request of HTTP/1.1 begins with.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a client of HTTP/2 says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What is known of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    /// What it has said so far begins the preface.
    Unknown,
    Http1,
    Http2,
}

/// A stream that breaks off where its client turns out to speak HTTP/2, and is like any other where it does not.
pub(crate) struct PrefaceStream<S> {
    stream: S,
    speaks: Speaks,
    /// The first bytes, how many of them have come, and how many of these have been read on.
    first: [u8; PREFACE.len()],
    come: usize,
    read: usize,
}

impl<S> PrefaceStream<S> {
    /// A stream of which nothing has been read.
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, speaks: Speaks::Unknown, first: [0; PREFACE.len()], come: 0, read: 0 }
    }

    /// A stream of which the preface has been read, and is read again.
    pub(crate) fn with_preface(stream: S) -> Self {
        Self { stream, speaks: Speaks::Http2, first: *PREFACE, come: PREFACE.len(), read: 0 }
    }

    /// Whether it has broken off because its client speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.speaks == Speaks::Http2
    }

    /// Whether some bytes have come and none has been read on, as what is not a whole preface may still become one.
    pub(crate) fn holds_back(&self) -> bool {
        self.speaks == Speaks::Unknown && self.come > 0
    }

    /// The stream itself.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> PrefaceStream<S> {
    /// Reads as much as tells what the client speaks.
    fn poll_version(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.speaks == Speaks::Unknown {
            let mut rest = ReadBuf::new(self.first.get_mut(self.come..).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut rest))?;
            let bytes = rest.filled().len();
            self.come += bytes;
            let begins = self.first.get(..self.come).is_some_and(|come| PREFACE.starts_with(come));
            self.speaks = match begins && bytes > 0 {
                false => Speaks::Http1,
                true if self.come == PREFACE.len() => Speaks::Http2,
                true => Speaks::Unknown,
            };
            if self.speaks == Speaks::Http2 {
                return Poll::Ready(Err(io::Error::other("the client speaks HTTP/2")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefaceStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_version(context))?;
        let held = self.first.get(self.read..self.come).unwrap_or_default();
        if held.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let bytes = held.len().min(buffer.remaining());
        buffer.put_slice(held.get(..bytes).unwrap_or_default());
        self.read += bytes;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefaceStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
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
    use std::convert::Infallible;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What is read of what a client says in such pieces, and whether it speaks HTTP/2.
    async fn heard(pieces: &[&[u8]]) -> (io::Result<Vec<u8>>, bool) {
        let (mut client, server) = duplex(1);
        let mut stream = PrefaceStream::new(server);
        let say = async {
            for piece in pieces {
                if client.write_all(piece).await.is_err() {
                    return;
                }
            }
            drop(client);
        };
        let read = async {
            let mut all = Vec::new();
            let read = stream.read_to_end(&mut all).await;
            (read.map(|_| all), stream.is_http2())
        };
        tokio::select! {
            biased;
            read = read => read,
            never = async { say.await; std::future::pending::<Infallible>().await } => match never {},
        }
    }

    #[tokio::test]
    async fn what_is_no_preface_is_read_as_it_was_said_however_it_begins() {
        for text in
            ["", "P", "PR", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"]
        {
            let (read, is_http2) = heard(&[text.as_bytes()]).await;
            assert_eq!((read.unwrap().as_slice(), is_http2), (text.as_bytes(), false), "{text:?}");
        }
        let long = "PROPFIND / HTTP/1.1\r\n".repeat(100);
        assert_eq!(heard(&[long.as_bytes()]).await.0.unwrap(), long.as_bytes());
    }

    #[tokio::test]
    async fn a_preface_breaks_off_and_is_read_again() {
        let (read, is_http2) = heard(&[&PREFACE[..3], &PREFACE[3..], b"frames"]).await;
        assert!(read.is_err() && is_http2);
        let mut again = PrefaceStream::with_preface(&b"frames"[..]);
        let mut all = Vec::new();
        again.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [&PREFACE[..], b"frames"].concat());
    }

    #[tokio::test]
    async fn what_may_become_a_preface_is_held_back() {
        let (mut client, server) = duplex(100);
        let mut stream = PrefaceStream::new(server);
        client.write_all(b"PRI").await.unwrap();
        let mut byte = [0];
        let waits = tokio::time::timeout(std::time::Duration::from_millis(1), stream.read(&mut byte)).await;
        assert!(waits.is_err() && stream.holds_back());
        client.write_all(b"!").await.unwrap();
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1);
        assert!(byte == *b"P" && !stream.holds_back());
    }
}
