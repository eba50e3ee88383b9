use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use crate::remote::http::address::CONNECT_LIMIT;
use crate::remote::http::body_decoder::BodyDecoder;
use crate::remote::http::error_words::{describe, error_text};
use crate::remote::http::response_head::ResponseHead;

/// How long a connection may wait for its next request.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// How long what follows an answer's end is waited for, so that its connection can be used again.
const AFTER_THE_END: Duration = Duration::from_secs(1);
/// What is read at once, in bytes: a whole answer of most hosts.
const READ_AT_ONCE: usize = 32 * 1024;
/// The longest head of an answer, in bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// Connections to one server, by HTTP/1.1 without TLS or a proxy.
///
/// Whoever waits for an answer reads its connection: all that has come is read and decoded at once, with no other task to
/// be woken and no step for each chunk, of which there is one for each token.
pub(crate) struct Connections {
    /// Host and port.
    address: String,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

struct Connection {
    socket: TcpStream,
    /// What has come and is not decoded.
    received: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "the connection was not accepted in time");
        let socket = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await.map_err(timed_out)??;
        socket.set_nodelay(true)?;
        Ok(Self { socket, received: Vec::with_capacity(READ_AT_ONCE) })
    }

    /// Whether the server has kept it open, and has said nothing since its last answer.
    fn is_ready(&self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(readable) = self.socket.poll_read_ready(context) {
            let is_nothing = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if readable.is_err() || !self.socket.try_read(&mut [0]).is_err_and(is_nothing) {
                return false;
            }
        }
        self.received.is_empty()
    }

    /// Sends a request, and reads the head of the answer to it.
    async fn send(&mut self, request: &[u8]) -> io::Result<ResponseHead> {
        let mut written = 0;
        // A server may refuse a request before it has read it, and then close the connection.
        let mut failed = None;
        let head = poll_fn(|context| {
            while written < request.len() && failed.is_none() {
                match Pin::new(&mut self.socket).poll_write(context, &request[written..]) {
                    Poll::Ready(Ok(bytes)) => written += bytes,
                    Poll::Ready(Err(error)) => failed = Some(error),
                    Poll::Pending => break,
                }
            }
            self.poll_head(context)
        });
        let head = head.await;
        match failed {
            Some(error) if head.is_err() => Err(error),
            failed => head.map(|head| {
                let is_whole = failed.is_none() && written == request.len();
                ResponseHead { keeps_open: head.keeps_open && is_whole, ..head }
            }),
        }
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<ResponseHead>> {
        loop {
            match ResponseHead::read(&self.received).map_err(io::Error::other)? {
                Some((head, length)) => {
                    self.received.drain(..length);
                    if !head.status.is_informational() {
                        return Poll::Ready(Ok(head));
                    }
                }
                None if self.received.len() > HEAD_LIMIT => {
                    return Poll::Ready(Err(io::Error::other("the head of its answer has no end")));
                }
                None => {
                    if ready!(self.poll_receive(context))? == 0 {
                        return Poll::Ready(Err(io::Error::other("it closed the connection instead of answering")));
                    }
                }
            }
        }
    }

    /// Reads what has come; how many bytes, none at the end of the connection.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.received.reserve(READ_AT_ONCE);
        pin!(self.socket.read_buf(&mut self.received)).poll(context)
    }
}

impl Connections {
    pub(crate) fn new(address: String) -> Self {
        Self { address, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Instant, Connection)>> {
        // It is whole after every statement.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, head and body; the answer's head, and its body to be read. A kept connection may just be being
    /// closed by the server, which leaves the request unread: then it is sent once more.
    pub(crate) async fn send(self: &Arc<Self>, request: &[u8]) -> io::Result<(ResponseHead, ReplyBody)> {
        if let Some(mut kept) = poll_fn(|context| Poll::Ready(self.take(context))).await {
            match kept.send(request).await {
                Err(error) if kept.received.is_empty() => {
                    tracing::debug!(address = self.address, %error, "a kept connection was closed, and another is opened");
                }
                sent => return Ok(self.reply(kept, sent?)),
            }
        }
        let mut connection = Connection::open(&self.address).await?;
        let head = connection.send(request).await?;
        Ok(self.reply(connection, head))
    }

    /// What is told of an answer that begins with this head.
    fn reply(self: &Arc<Self>, connection: Connection, head: ResponseHead) -> (ResponseHead, ReplyBody) {
        let (decoder, pool) = (BodyDecoder::new(head.framing), head.keeps_open.then(|| Arc::clone(self)));
        (head, ReplyBody::Received(ReceivedBody { decoder, connection: Some(connection), pool }))
    }

    /// The connection that was used last and that the server has kept.
    fn take(&self, context: &mut Context<'_>) -> Option<Connection> {
        loop {
            let (_, connection) = self.idle().pop()?;
            if connection.is_ready(context) {
                return Some(connection);
            }
        }
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle();
        let now = Instant::now();
        // There may be as many as agents; those that have waited longest are the first.
        let expired = idle.partition_point(|(since, _)| now.duration_since(*since) >= IDLE_LIMIT);
        idle.drain(..expired);
        idle.push((now, connection));
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connections").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The body of an answer under way. Dropped before its end, it ends its connection, and so the server's work.
pub(crate) enum ReplyBody {
    /// From one of [`Connections`].
    Received(ReceivedBody),
    /// Of the client that knows TLS and proxies.
    Client(reqwest::Body),
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReplyBody")
    }
}

/// A body and the connection that it comes from, until its end has come.
pub(crate) struct ReceivedBody {
    decoder: BodyDecoder,
    connection: Option<Connection>,
    /// Where the connection goes then, if it can be used again.
    pool: Option<Arc<Connections>>,
}

impl ReceivedBody {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let mut data = Vec::new();
        loop {
            data.reserve(connection.received.len());
            let decoded = self.decoder.decode(&connection.received, &mut data);
            match decoded {
                Ok(bytes) => drop(connection.received.drain(..bytes)),
                Err(message) => return Poll::Ready(Some(Err(message))),
            }
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(data.into())));
            }
            if self.decoder.is_over() {
                if let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.take()) {
                    pool.put_back(connection);
                }
                return Poll::Ready(None);
            }
            match ready!(connection.poll_receive(context)) {
                Ok(0) if self.decoder.may_end() => return Poll::Ready(None),
                Ok(0) => return Poll::Ready(Some(Err("the connection was closed in its middle".to_owned()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error_text(&error)))),
            }
        }
    }
}

impl ReplyBody {
    /// The next bytes, `None` at the end; what went wrong, in words.
    pub(crate) fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            ReplyBody::Received(body) => body.poll_data(context),
            ReplyBody::Client(body) => poll_data(body, context),
        }
    }

    pub(crate) async fn data(&mut self) -> Option<Result<Bytes, String>> {
        poll_fn(|context| self.poll_data(context)).await
    }

    /// Reads what follows an answer's end, which most often has come with it: without that the connection would be
    /// closed, and the next request would open another. What is wrong there is none of the answer's faults.
    pub(crate) fn abandon(mut self, context: &mut Context<'_>) {
        loop {
            match self.poll_data(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => return,
                Poll::Pending => break,
            }
        }
        #[expect(clippy::disallowed_methods, reason = "it ends with its time limit")]
        tokio::spawn(tokio::time::timeout(AFTER_THE_END, async move { while let Some(Ok(_)) = self.data().await {} }));
    }
}

/// The next data of the client's body, trailers left out.
fn poll_data(body: &mut reqwest::Body, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(describe(error)))),
            None => return Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn connections() -> (TcpListener, Arc<Connections>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, Arc::new(Connections::new(address)))
    }

    async fn whole(mut body: ReplyBody) -> Result<Vec<u8>, String> {
        let mut whole = Vec::new();
        while let Some(data) = body.data().await {
            whole.extend_from_slice(&data?);
        }
        Ok(whole)
    }

    /// What is answered to a request when the server says this and closes the connection, and whether it would have been
    /// used again.
    async fn answered(response: &[u8]) -> (Result<Vec<u8>, String>, bool) {
        let (listener, connections) = connections().await;
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_exact(&mut [0; 7]).await.unwrap();
            socket.write_all(response).await.unwrap();
        };
        let client = async {
            let (_, body) = connections.send(b"request").await.map_err(|error| error.to_string())?;
            whole(body).await
        };
        let (answer, ()) = tokio::join!(client, server);
        (answer, !connections.idle().is_empty())
    }

    #[tokio::test]
    async fn an_answer_is_whole_where_its_head_says_so() {
        let body_of = |body: &str| Ok(body.as_bytes().to_vec());
        let continued = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(answered(continued).await, (body_of("ok"), true));
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\n\r\nuntil here").await, (body_of("until here"), false));
        let closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(answered(closing).await, (body_of("ok"), false));
        let cut = Err("the connection was closed in its middle".to_owned());
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await, (cut, false));
        let none = Err("it closed the connection instead of answering".to_owned());
        assert_eq!(answered(b"HTTP/1.1 200").await, (none, false));
    }

    #[tokio::test]
    async fn a_request_that_is_refused_before_it_was_read_is_answered_all_the_same() {
        let (listener, connections) = connections().await;
        let request = vec![b'x'; 64 * 1024 * 1024];
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
            socket
        };
        let (answer, _socket) = tokio::join!(connections.send(&request), server);
        let (head, body) = answer.unwrap();
        assert_eq!((head.status.as_u16(), whole(body).await), (413, Ok(b"no".to_vec())));
        assert!(connections.idle().is_empty(), "the rest of the request would be taken for the next one");
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_meanwhile_is_not_used_again() {
        let (listener, connections) = connections().await;
        for _ in 0..2 {
            let server = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                socket.read_exact(&mut [0; 1]).await.unwrap();
                socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").await.unwrap();
            };
            let client = async { whole(connections.send(b"x").await.unwrap().1).await };
            let (answer, ()) = tokio::join!(client, server);
            assert_eq!(answer, Ok(b"1".to_vec()));
            let closed = poll_fn(|context| connections.idle()[0].1.socket.poll_read_ready(context)).await;
            closed.unwrap();
        }
    }

    #[tokio::test]
    async fn connections_that_have_waited_too_long_are_closed_when_another_is_put_back() {
        let (_listener, connections) = connections().await;
        let address = connections.address.clone();
        let now = Instant::now();
        for seconds in [200, 91, 89, 1] {
            let since = now.checked_sub(Duration::from_secs(seconds)).unwrap();
            let connection = Connection::open(&address).await.unwrap();
            connections.idle().push((since, connection));
        }
        connections.put_back(Connection::open(&address).await.unwrap());
        let waited: Vec<u64> =
            connections.idle().iter().map(|(since, _)| now.saturating_duration_since(*since).as_secs()).collect();
        assert_eq!(waited, [89, 1, 0]);
    }

    #[tokio::test]
    async fn a_kept_connection_that_is_closed_under_a_request_fails_nobody() {
        let (listener, connections) = connections().await;
        let server = async {
            let (mut kept, _) = listener.accept().await.unwrap();
            for answer in [&b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1"[..], b""] {
                kept.read_exact(&mut [0; 1]).await.unwrap();
                kept.write_all(answer).await.unwrap();
            }
            drop(kept);
            let (mut fresh, _) = listener.accept().await.unwrap();
            fresh.read_exact(&mut [0; 1]).await.unwrap();
            fresh.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n2").await.unwrap();
            // No answer at all on a fresh one is an error.
            fresh.read_exact(&mut [0; 1]).await.unwrap();
            drop(fresh);
            let (mut fresh, _) = listener.accept().await.unwrap();
            fresh.read_exact(&mut [0; 1]).await.unwrap();
        };
        let client = async {
            for expected in [b"1", b"2"] {
                assert_eq!(whole(connections.send(b"x").await.unwrap().1).await, Ok(expected.to_vec()));
            }
            connections.send(b"x").await.unwrap_err().to_string()
        };
        let (error, ()) = tokio::join!(client, server);
        assert_eq!(error, "it closed the connection instead of answering");
    }
}
