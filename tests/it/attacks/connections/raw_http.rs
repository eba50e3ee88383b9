//! What is no request, or two requests in one, sent over raw sockets: each is refused or cut off, nothing of it is done,
//! and the next client is served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::common::Server;

/// What a case must come to.
enum Then {
    /// No answer says that anything was done.
    Refused,
    /// It may be answered, as long as nothing goes wrong in here.
    Unharmed,
    /// One refusal, and nothing after it.
    RefusedAlone,
    /// Exactly so many requests are answered.
    Answered(usize),
}
use Then::{Answered, Refused, RefusedAlone, Unharmed};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: HOST\r\n";
/// Enqueues a rollout, if it is ever taken for a request.
const SMUGGLED: &str = "POST /v1/agl/rollouts HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"input\":1}";

fn post(headers: &str, body: &str) -> String {
    format!("POST /v1/agl/rollouts HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\n{headers}\r\n{body}")
}

fn get(request_line: &str) -> String {
    format!("{request_line}\r\nhost: HOST\r\n\r\n")
}

fn cases() -> Vec<(&'static str, String, Then)> {
    vec![
        ("nothing at all", String::new(), Refused),
        ("empty lines", "\r\n".repeat(2000), Refused),
        ("something that is not text", "\u{1}\u{2}\u{fffd}\u{0}".repeat(50), Refused),
        ("a handshake of TLS", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}".to_owned(), Refused),
        ("HTTP/0.9", "GET /healthz\r\n".to_owned(), Refused),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), Refused),
        ("a version that is none", get("GET /healthz HTTP/9.9"), Refused),
        ("a version of another protocol", get("GET /healthz RTSP/1.0"), Refused),
        ("a method in lower case", get("get /healthz HTTP/1.1"), Refused),
        ("a method without an end", get(&format!("{} /healthz HTTP/1.1", "G".repeat(9000))), Refused),
        ("a method with a NUL", get("GE\0T /healthz HTTP/1.1"), Refused),
        ("a target with a NUL", get("GET /health\0z HTTP/1.1"), Refused),
        ("a target with a space", get("GET /health z HTTP/1.1"), Refused),
        ("a target of 70,000 bytes", get(&format!("GET /{} HTTP/1.1", "a".repeat(70_000))), Refused),
        ("a target that climbs", get("GET /../../etc/passwd HTTP/1.1"), Refused),
        ("a target with odd escapes", get("GET /v1/agl/rollouts/%zz%00%2e%2e%ff HTTP/1.1"), Refused),
        ("a target in absolute form", get("GET http://HOST/healthz HTTP/1.1"), Unharmed),
        ("a target in another host", get("GET http://elsewhere.example:1/healthz HTTP/1.1"), Unharmed),
        ("a tunnel", get("CONNECT elsewhere.example:443 HTTP/1.1"), Refused),
        ("a question about all", get("OPTIONS * HTTP/1.1"), Refused),
        ("no host", "GET /healthz HTTP/1.1\r\n\r\n".to_owned(), Unharmed),
        ("two hosts", format!("{HEALTH}host: elsewhere.example\r\n\r\n"), Unharmed),
        ("a header without a colon", format!("{HEALTH}nonsense\r\n\r\n"), Refused),
        ("a header with a space before its colon", format!("{HEALTH}content-length : 5\r\n\r\n"), Refused),
        ("a header without a name", format!("{HEALTH}: x\r\n\r\n"), Refused),
        ("a header on two lines", format!("{HEALTH}x-a: b\r\n c\r\n\r\n"), Refused),
        ("a header with a NUL", format!("{HEALTH}x-a: b\0c\r\n\r\n"), Refused),
        ("a carriage return by itself", format!("{HEALTH}x-a: b\rx-c: d\r\n\r\n"), Refused),
        ("lines without carriage returns", "GET /healthz HTTP/1.1\nhost: HOST\n\n".to_owned(), Unharmed),
        ("1,000 headers", format!("{HEALTH}{}\r\n", "x-a: b\r\n".repeat(1000)), Refused),
        ("a header of a mebibyte", format!("{HEALTH}x-a: {}\r\n\r\n", "b".repeat(1 << 20)), Refused),
        ("a key of odd bytes", format!("{HEALTH}authorization: Basic ÿÿÿÿ\r\nx-api-key: \u{7f}\r\n\r\n"), Unharmed),
        ("two lengths", post("content-length: 11\r\ncontent-length: 12\r\n", "{\"input\":1}"), Refused),
        ("a list of lengths", post("content-length: 11, 12\r\n", "{\"input\":1}"), Refused),
        ("a length with a sign", post("content-length: +11\r\n", "{\"input\":1}"), Refused),
        ("a length below nothing", post("content-length: -1\r\n", "{\"input\":1}"), Refused),
        ("a length in hexadecimal", post("content-length: 0xb\r\n", "{\"input\":1}"), Refused),
        ("a length of 2^64", post("content-length: 18446744073709551616\r\n", "{\"input\":1}"), Refused),
        ("a length of 2^63", post("content-length: 9223372036854775808\r\n", "{\"input\":1}"), Refused),
        ("a body that ends early", post("content-length: 5000\r\n", "{\"input\":1}"), Refused),
        (
            "a coding that is not chunked",
            post("transfer-encoding: xchunked\r\n", "b\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "chunked, but not last",
            post("transfer-encoding: chunked, gzip\r\n", "b\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "chunked before there was such",
            post("transfer-encoding: chunked\r\n", "b\r\n{\"input\":1}\r\n0\r\n\r\n").replace("HTTP/1.1", "HTTP/1.0"),
            Refused,
        ),
        (
            "a chunk's size that is none",
            post("transfer-encoding: chunked\r\n", "zz\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "a chunk's size with a sign",
            post("transfer-encoding: chunked\r\n", "-b\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "a chunk of 2^72 bytes",
            post("transfer-encoding: chunked\r\n", "1000000000000000000\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "a chunk that is longer than its size",
            post("transfer-encoding: chunked\r\n", "3\r\n{\"input\":1}\r\n0\r\n\r\n"),
            Refused,
        ),
        ("a chunk that ends early", post("transfer-encoding: chunked\r\n", "ff\r\n{\"input\":1}"), Refused),
        ("chunks without the last", post("transfer-encoding: chunked\r\n", "b\r\n{\"input\":1}\r\n"), Refused),
        (
            "an extension without an end",
            post("transfer-encoding: chunked\r\n", &format!("b;{}", "x".repeat(100_000))),
            Refused,
        ),
        (
            "trailers without an end",
            post("transfer-encoding: chunked\r\n", &format!("0\r\n{}", "x-a: b\r\n".repeat(20_000))),
            Refused,
        ),
        ("an upgrade", format!("{HEALTH}connection: upgrade, close\r\nupgrade: websocket\r\n\r\n"), Answered(1)),
        (
            "an upgrade to HTTP/2",
            format!("{HEALTH}connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: \r\n\r\n"),
            Answered(1),
        ),
        ("an expectation that is none", post("expect: miracles\r\ncontent-length: 3\r\n", "nay"), Refused),
        // The request after it would be somebody else's, if whoever is before us counted by the other header.
        (
            "a length and chunks",
            post("content-length: LENGTH\r\ntransfer-encoding: chunked\r\n", &format!("0\r\n\r\n{SMUGGLED}")),
            RefusedAlone,
        ),
        (
            "chunks and a length",
            post("transfer-encoding: chunked\r\ncontent-length: LENGTH\r\n", &format!("0\r\n\r\n{SMUGGLED}")),
            RefusedAlone,
        ),
        (
            "chunks twice",
            post("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", &format!("0\r\n\r\n{SMUGGLED}")),
            Refused,
        ),
        ("a request after one that is refused", format!("{HEALTH}nonsense\r\n\r\n{SMUGGLED}"), Refused),
        (
            "a request behind a body that has none",
            format!("{HEALTH}connection: close\r\ncontent-length: LENGTH\r\n\r\n{SMUGGLED}"),
            Answered(1),
        ),
        (
            "200 requests at once",
            format!("{}{HEALTH}connection: close\r\n\r\n", format!("{HEALTH}\r\n").repeat(199)),
            Answered(200),
        ),
    ]
}

/// All that the server says until it closes the connection. Where a request may lack its end, the client says that it will
/// send no more.
fn exchange(host: &str, sent: &str, is_all: bool) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // It may be cut off while it still speaks.
    let _ = stream.write_all(sent.as_bytes());
    if is_all {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        // What arrived before the connection was reset was said all the same.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// The statuses of the answers in it.
fn statuses(received: &str) -> Vec<u16> {
    let heads = received.split("HTTP/1.").skip(1);
    heads.filter_map(|head| head.split(' ').nth(1)?.get(..3)?.parse().ok()).collect()
}

/// Nothing in the server's log tells of a panic.
pub fn assert_no_panic(directory: &Path) {
    let log = std::fs::read_to_string(directory.join("serve.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn what_is_no_request_is_refused_and_the_next_client_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    let host = server.url.strip_prefix("http://").unwrap();
    // As long as what stands behind a body is, with the last chunk before it.
    let length = SMUGGLED.replace("HOST", host).len();
    for (name, sent, then) in cases() {
        let sent = sent.replace("LENGTH", &length.to_string()).replace("HOST", host);
        let received = exchange(host, &sent, matches!(then, Refused | Unharmed));
        let statuses = statuses(&received);
        let fails = |status: &u16| *status == 500 || *status > 505;
        assert!(!statuses.iter().any(fails), "{name}: {received}");
        match then {
            Refused => assert!(statuses.iter().all(|status| (400..=505).contains(status)), "{name}: {received}"),
            RefusedAlone => assert!(matches!(statuses[..], [400..=499]), "{name}: {received}"),
            Answered(count) => assert_eq!(statuses, vec![200; count], "{name}: {received}"),
            Unharmed => {}
        }
        let health = exchange(host, &format!("{HEALTH}connection: close\r\n\r\n").replace("HOST", host), false);
        assert_eq!(self::statuses(&health), [200], "after {name}");
    }
    let rollouts = server.get("/v1/agl/rollouts?include_sessions=true").expect(200);
    assert_eq!(rollouts["total"], json!(0), "what was refused was done all the same: {rollouts}");
    assert_no_panic(directory.path());
}
