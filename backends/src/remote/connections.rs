use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::remote::host::{CONNECT_LIMIT, describe};

/// How long a connection may wait for its next request.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// How long what follows an answer's end is waited for, so that its connection can be used again.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Connections to one server, by HTTP/1.1 without TLS or a proxy.
///
/// Whoever waits for an answer drives its connection: events of one read are read at once, with no other task to be
/// woken for each of them.
pub(crate) struct Connections {
    /// Host and port.
    address: String,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    is_over: bool,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "the connection was not accepted in time");
        let socket = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await.map_err(timed_out)??;
        socket.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        Ok(Self { sender, driver: Box::pin(driver), is_over: false })
    }

    /// Reads and writes what can be now. What goes wrong is told to whoever waits for the answer.
    fn drive(&mut self, context: &mut Context<'_>) {
        self.is_over = self.is_over || self.driver.as_mut().poll(context).is_ready();
    }

    /// Whether the server has kept it open, and it has nothing else to do.
    fn is_ready(&mut self, context: &mut Context<'_>) -> bool {
        self.drive(context);
        !self.is_over && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(())))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut reply = pin!(self.sender.send_request(request));
        poll_fn(|context| {
            self.drive(context);
            reply.as_mut().poll(context)
        })
        .await
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

    /// Sends a request; the answer's head.
    pub(crate) async fn send(self: &Arc<Self>, request: Request<Full<Bytes>>) -> io::Result<Response<ReplyBody>> {
        let mut connection = match poll_fn(|context| Poll::Ready(self.take(context))).await {
            Some(kept) => kept,
            None => Connection::open(&self.address).await?,
        };
        let response = connection.send(request).await.map_err(io::Error::other)?;
        let pool = Arc::clone(self);
        Ok(response.map(|body| ReplyBody::Driven(Box::new(DrivenBody { body, connection: Some((connection, pool)) }))))
    }

    /// The connection that was used last and that the server has kept.
    fn take(&self, context: &mut Context<'_>) -> Option<Connection> {
        loop {
            let (_, mut connection) = self.idle().pop()?;
            if connection.is_ready(context) {
                return Some(connection);
            }
        }
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle();
        idle.retain(|(since, _)| since.elapsed() < IDLE_LIMIT);
        idle.push((Instant::now(), connection));
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connections").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The body of an answer under way. Dropped before its end, it ends its connection, and so the server's work.
pub(crate) enum ReplyBody {
    /// Of one of [`Connections`].
    Driven(Box<DrivenBody>),
    /// Of the client that knows TLS and proxies.
    Client(reqwest::Body),
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReplyBody")
    }
}

impl From<reqwest::Body> for ReplyBody {
    fn from(body: reqwest::Body) -> Self {
        ReplyBody::Client(body)
    }
}

/// A body and the connection that it comes from, until its end has come.
pub(crate) struct DrivenBody {
    body: Incoming,
    connection: Option<(Connection, Arc<Connections>)>,
}

impl DrivenBody {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        let mut data = poll_data(&mut self.body, context);
        if let (Poll::Pending, Some((connection, _))) = (&data, &mut self.connection) {
            connection.drive(context);
            data = poll_data(&mut self.body, context);
        }
        if matches!(data, Poll::Ready(None))
            && let Some((connection, pool)) = self.connection.take()
        {
            pool.put_back(connection);
        }
        data
    }
}

impl ReplyBody {
    /// The next bytes, `None` at the end; what went wrong, in words.
    pub(crate) fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        let data = match self {
            ReplyBody::Driven(driven) => ready!(driven.poll_data(context)).map(|data| data.map_err(|e| in_words(&e))),
            ReplyBody::Client(body) => ready!(poll_data(body, context)).map(|data| data.map_err(describe)),
        };
        Poll::Ready(data)
    }

    pub(crate) async fn data(&mut self) -> Option<Result<Bytes, String>> {
        poll_fn(|context| self.poll_data(context)).await
    }

    /// Reads what follows an answer's end, which most often has come with it: without that the connection would be
    /// closed, and the next request would open another. What is wrong there is none of the answer's faults.
    pub(crate) fn leave(mut self, context: &mut Context<'_>) {
        loop {
            match self.poll_data(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => return,
                Poll::Pending => break,
            }
        }
        tokio::spawn(tokio::time::timeout(AFTER_THE_END, async move { while let Some(Ok(_)) = self.data().await {} }));
    }
}

/// The next data of a body, trailers left out.
fn poll_data<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, B::Error>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}

/// An error with its causes.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
