//! The endpoint of a sandbox: a socket in the file system, through which an attempt's own requests go to the server.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use fulgurite_client::{Assignment, Server};
use futures::TryStreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::listening::next_connection;

type Body = BoxBody<Bytes, reqwest::Error>;

/// Of one connection and not of what goes over it.
const OF_A_CONNECTION: [HeaderName; 6] = [HOST, CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// An endpoint, open until it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    path: PathBuf,
    _listening: JoinSet<()>,
}

impl Endpoint {
    /// Opens an endpoint for the attempt: a socket in `directory`, for `user` if that is another than this one, with so many
    /// connections at a time.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub(crate) fn open(
        directory: &Path,
        server: &Server,
        assignment: &Assignment,
        user: Option<u32>,
        connections: usize,
    ) -> io::Result<Self> {
        let path = directory.join("proxy.sock");
        // A socket's path may have a hundred bytes, which a directory's may well exceed.
        let opened = File::open(directory)?;
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/proxy.sock", opened.as_raw_fd()))?;
        if let Some(user) = user {
            std::os::unix::fs::lchown(&path, Some(user), None)?;
        }
        let passage = Passage { server: server.clone(), attempt: server.attempt_url(assignment, &[""]) };
        let mut listening = JoinSet::new();
        listening.spawn(async move { passage.watch(listener, connections).await });
        Ok(Self { path, _listening: listening })
    }

    /// Where its socket is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// What goes through an endpoint.
#[derive(Debug, Clone)]
struct Passage {
    server: Server,
    /// What all URLs of the attempt begin with.
    attempt: Url,
}

impl Passage {
    async fn watch(self, listener: UnixListener, most: usize) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            // Further ones wait in the listener's queue: an attempt takes no descriptors that others need.
            if connections.len() >= most {
                connections.join_next().await;
                continue;
            }
            let stream = next_connection(|| listener.accept()).await;
            let passage = self.clone();
            connections.spawn(async move { passage.serve(stream).await });
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request| self.pass(request));
        let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that leaves is no fault.
        if let Err(error) = served.await {
            tracing::debug!(%error, "a connection from a sandbox broke");
        }
    }

    /// Hands a request of the attempt on, and its answer back as it comes.
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let url = match self.attempt.join(path) {
            // What is looked at is what is sent: dots in a path are resolved by now.
            Ok(url) if url.as_str().starts_with(self.attempt.as_str()) => url,
            _ => {
                // A client that still writes its body would lose the answer with the connection.
                let mut body = request.into_body();
                while body.frame().await.transpose()?.is_some() {}
                return Ok(refusal(
                    StatusCode::FORBIDDEN,
                    "a sandbox reaches its own attempt's model and rewards only",
                ));
            }
        };
        let (parts, body) = request.into_parts();
        let sent = self.server.http().request(parts.method, url).headers(without_connection(parts.headers));
        match sent.body(reqwest::Body::wrap_stream(BodyDataStream::new(body))).send().await {
            Ok(answer) => {
                let mut response = Response::new(Body::default());
                *response.status_mut() = answer.status();
                *response.headers_mut() = without_connection(answer.headers().clone());
                let stream = answer.bytes_stream().map_ok(Frame::data);
                *response.body_mut() = StreamBody::new(stream).boxed();
                Ok(response)
            }
            Err(error) => {
                tracing::warn!(error = %error.without_url(), "a sandbox's request did not reach the server");
                Ok(refusal(StatusCode::BAD_GATEWAY, "the server is out of reach"))
            }
        }
    }
}

fn without_connection(mut headers: HeaderMap) -> HeaderMap {
    OF_A_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

/// An error in the words that OpenAI's and Anthropic's clients read.
fn refusal(status: StatusCode, message: &str) -> Response<Body> {
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } });
    let mut response = Response::new(Full::from(body.to_string()).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulgurite_client::ServerOptions;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_sandbox_that_opens_connections_without_end_has_a_bounded_number() {
        let directory = tempfile::tempdir().unwrap();
        let (url, patience) = ("http://127.0.0.1:1".to_owned(), Duration::ZERO);
        let server = Server::new(ServerOptions { url, admin_key: None, patience, reply_limit: 4096 }).unwrap();
        let attempt = Url::parse("http://127.0.0.1:1/rollout/ro-a/attempt/at-b/").unwrap();
        let path = directory.path().join("door");
        let listener = UnixListener::bind(&path).unwrap();
        let mut watching = JoinSet::new();
        watching.spawn(async move { Passage { server, attempt }.watch(listener, 5).await });
        let is_answered = async |stream: &mut UnixStream| {
            stream.write_all(b"GET /elsewhere HTTP/1.1\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            answer == *b"HTTP/1.1 403"
        };
        let mut open = Vec::new();
        for _ in 0..5 {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            assert!(is_answered(&mut stream).await);
            open.push(stream);
        }
        // One more waits until another has gone.
        let mut more = UnixStream::connect(&path).await.unwrap();
        more.write_all(b"GET /elsewhere HTTP/1.1\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(more.try_read(&mut [0; 12]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        open.pop();
        let mut answer = [0; 12];
        more.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 403");
    }

    #[tokio::test]
    async fn a_client_that_sends_its_body_late_reads_why_it_was_refused() {
        let (url, patience) = ("http://127.0.0.1:1".to_owned(), Duration::ZERO);
        let server = Server::new(ServerOptions { url, admin_key: None, patience, reply_limit: 4096 }).unwrap();
        let attempt = Url::parse("http://127.0.0.1:1/rollout/ro-a/attempt/at-b/").unwrap();
        let (mut client, theirs) = duplex(4096);
        let mut serving = JoinSet::new();
        serving.spawn(async move { Passage { server, attempt }.serve(theirs).await });

        for _ in 0..2 {
            client.write_all(b"POST /v1/fulgurite/rollouts HTTP/1.1\r\ncontent-length: 2\r\n\r\n").await.unwrap();
            // On this one thread, the endpoint does all that it would do before the body.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            client.write_all(b"{}").await.unwrap();
            let mut answer = vec![0; 4096];
            let read = client.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..read]);
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        }
    }
}
