//! HTTP/2 without TLS, by a real client and by raw frames: every route answers, and a connection's limits hold.

use std::io::{Read, Write};
use std::net::TcpStream;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::common::{Server, model_flag, tiny_model};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames.
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;

/// One connection of HTTP/2.
pub struct Connection {
    url: String,
    sender: SendRequest<Body>,
    ended: JoinHandle<hyper::Result<()>>,
    runtime: Runtime,
}

/// A whole response.
pub struct Reply {
    pub status: StatusCode,
    pub head: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Connection {
    pub fn open(server: &Server) -> Self {
        let runtime = Runtime::new().unwrap();
        let address = address(server).to_owned();
        let (sender, connection) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap()
        });
        let ended = runtime.spawn(connection);
        Self { url: server.url.clone(), sender, ended, runtime }
    }

    /// The head of the response to a request, whose body comes after it.
    pub fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> axum::http::Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let sender = &mut self.sender;
        self.runtime.block_on(async {
            sender.ready().await.unwrap();
            sender.send_request(request).await.unwrap()
        })
    }

    /// What comes after the head.
    pub fn finish(&self, response: axum::http::Response<Incoming>) -> Reply {
        let (parts, body) = response.into_parts();
        let body = self.runtime.block_on(body.collect()).unwrap();
        let trailers = body.trailers().cloned();
        Reply { status: parts.status, head: parts.headers, body: body.to_bytes(), trailers }
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Reply {
        let response = self.begin(method, path, headers, body);
        self.finish(response)
    }

    /// Waits until the server has ended the connection.
    fn end(self) {
        let _ = self.runtime.block_on(self.ended).unwrap();
    }
}

pub fn address(server: &Server) -> &str {
    server.url.strip_prefix("http://").unwrap()
}

fn serve(directory: &std::path::Path, config: &str) -> Server {
    let file = directory.join("config.toml");
    std::fs::write(&file, config).unwrap();
    Server::start(directory, ["--config", file.to_str().unwrap()])
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Headers as literals, of which none is remembered (RFC 7541, 6.2.2).
fn header_block(headers: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    headers.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// All frames that a server sends to what is sent after the preface, until it closes the connection: kind and payload.
fn frames(server: &Server, sent: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut stream = TcpStream::connect(address(server)).unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), sent].concat()).unwrap();
    let mut received = Vec::new();
    // A connection that is closed on bytes that nobody read is reset.
    let _ = stream.read_to_end(&mut received);
    let mut frames = Vec::new();
    let mut rest = &received[..];
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        frames.push((head[3], after[..length].to_vec()));
        rest = &after[length..];
    }
    frames
}

/// Why a server ends a connection, by the protocol's codes.
fn reasons(frames: &[(u8, Vec<u8>)]) -> Vec<u32> {
    let ends = frames.iter().filter(|(kind, _)| *kind == GO_AWAY);
    ends.map(|(_, payload)| u32::from_be_bytes(payload[4..8].try_into().unwrap())).collect()
}

#[test]
fn every_route_answers_and_calls_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let mut connection = Connection::open(&server);
    assert_eq!(connection.send("GET", "/healthz", &[], Body::empty()).status, 200);
    let json = &[("content-type", "application/json")];
    let call = |stream: bool| {
        json!({ "model": "tiny", "stream": stream, "max_tokens": 8, "messages": [{ "role": "user", "content": "Say" }] })
            .to_string()
    };
    // Two at once: the second is whole before anything is read of the first.
    let first = connection.begin("POST", "/v1/chat/completions", json, call(true));
    let second = connection.send("POST", "/v1/chat/completions", json, call(false));
    assert_eq!(second.status, 200);
    assert_eq!(serde_json::from_slice::<Value>(&second.body).unwrap()["object"], "chat.completion");
    let first = connection.finish(first);
    assert_eq!(first.head["content-type"], "text/event-stream; charset=utf-8");
    assert!(first.body.ends_with(b"data: [DONE]\n\n"), "{:?}", first.body);
    assert_eq!(server.query("generations").len(), 2);
    // Errors are those of HTTP/1.1, and a name that is not the server's is refused here too.
    let unknown = connection.send("GET", "/v1/unknown", &[], Body::empty());
    assert_eq!((unknown.status.as_u16(), unknown.body), (404, Bytes::from(server.get("/v1/unknown").text)));
    let mut foreign = Connection::open(&server);
    foreign.url = "http://evil.example".to_owned();
    assert_eq!(foreign.send("GET", "/v1/models", &[], Body::empty()).status, 403);
}

#[test]
fn a_connection_that_says_nothing_is_closed_and_half_a_preface_is_a_head_that_is_late() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nheader_seconds = 0.2\n");
    let silent = frames(&server, &[]);
    assert!(silent.iter().any(|(kind, _)| *kind == SETTINGS), "{silent:?}");
    assert_eq!(reasons(&silent).first(), Some(&0), "{silent:?}");
    // A head that never ends, of a request that never begins.
    let head = header_block(&[(":method", "GET")]);
    assert_eq!(reasons(&frames(&server, &frame(HEADERS, 0, 1, &head))).first(), Some(&0));
    let mut connection = Connection::open(&server);
    assert_eq!(connection.send("GET", "/healthz", &[], Body::empty()).status, 200);
    connection.end();

    let mut half = TcpStream::connect(address(&server)).unwrap();
    half.write_all(&PREFACE[..9]).unwrap();
    let mut received = String::new();
    half.read_to_string(&mut received).unwrap();
    assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
}

#[test]
fn heads_and_bodies_have_the_limits_that_they_have_over_http_1() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nbody_seconds = 0.2\nheader_limit_bytes = 9000\n");
    let mut connection = Connection::open(&server);
    let with = |bytes: usize| "x".repeat(bytes);
    assert_eq!(connection.send("GET", "/healthz", &[("x-large", &with(8000))], Body::empty()).status, 200);
    assert_eq!(connection.send("GET", "/healthz", &[("x-large", &with(9000))], Body::empty()).status, 431);
    let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let slow = connection.send("POST", "/v1/traces", &[("content-type", "application/json")], endless);
    assert_eq!(slow.status, 408);
    let words = "the request body did not arrive within 0.2 seconds (server.body_seconds)";
    assert_eq!(slow.body, json!({ "message": words }).to_string());
}

#[test]
fn a_client_that_takes_nothing_in_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nwrite_seconds = 0.2\n");
    // More than the client lets come while nobody reads it.
    let rollout = json!({ "input": "x".repeat(16 << 20) });
    let enqueued = server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let path = format!("/v1/agl/rollouts/{}", enqueued[0]["rollout_id"].as_str().unwrap());
    let mut connection = Connection::open(&server);
    let unread = connection.begin("GET", &path, &[], Body::empty());
    assert_eq!(unread.status(), 200);
    connection.end();
    drop(unread);
    // One that reads gets all of it.
    let mut connection = Connection::open(&server);
    assert!(connection.send("GET", &path, &[], Body::empty()).body.len() > 16 << 20);
}

#[test]
fn hostile_frames_end_their_own_connection_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nheader_seconds = 0.5\n");
    let head =
        header_block(&[(":method", "GET"), (":scheme", "http"), (":path", "/healthz"), (":authority", "localhost")]);
    let whole = |stream| frame(HEADERS, 5, stream, &head);
    // Requests that are taken back as fast as they come.
    let cancelled = (0..1000).flat_map(|n| [whole(2 * n + 1), frame(RESET, 0, 2 * n + 1, &[0, 0, 0, 8])].concat());
    assert_eq!(reasons(&frames(&server, &cancelled.collect::<Vec<u8>>())), [11], "enhance your calm");
    // A frame that is larger than any that was agreed on, of which the rest never comes.
    assert_eq!(reasons(&frames(&server, &[&[255, 255, 255, 0, 0, 0, 0, 0, 1][..], &[0; 100]].concat())), [6]);
    // A stream of a number that clients do not have.
    assert_eq!(reasons(&frames(&server, &whole(2))), [1]);
    // Nothing that is HTTP/2, and the beginning of a frame.
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0]] {
        assert!(!reasons(&frames(&server, rubbish)).is_empty(), "{rubbish:?}");
    }
    assert_eq!(Connection::open(&server).send("GET", "/healthz", &[], Body::empty()).status, 200);
}

#[test]
fn a_server_that_ends_finishes_what_is_under_way_and_closes_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let mut server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let mut idle = Connection::open(&server);
    assert_eq!(idle.send("GET", "/healthz", &[], Body::empty()).status, 200);
    let mut busy = Connection::open(&server);
    let call =
        json!({ "model": "tiny", "stream": true, "max_tokens": 32, "messages": [{ "role": "user", "content": "S" }] });
    let json = &[("content-type", "application/json")];
    let response = busy.begin("POST", "/v1/chat/completions", json, call.to_string());
    assert_eq!(server.process.terminate(), Some(0));
    let reply = busy.finish(response);
    assert!(reply.body.ends_with(b"data: [DONE]\n\n"), "{:?}", reply.body);
    busy.end();
    idle.end();
}
