//! Requests that never end, over raw sockets: each is given up, and told so where its dialect is known.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{Server, run};
use serde_json::{Value, json};

const QUICK: &str = "[server]\nheader_seconds = 0.2\nbody_seconds = 0.2\nheader_limit_bytes = 9000\n";

fn serve(directory: &std::path::Path, config: &str) -> Server {
    let file = directory.join("config.toml");
    std::fs::write(&file, config).unwrap();
    Server::start(directory, ["--config", file.to_str().unwrap()])
}

/// All that a server says to what is sent, until it closes the connection.
fn answer(server: &Server, sent: &str) -> String {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

/// What is told of a head that could not be read.
fn refusal(message: &str, code: &str) -> Value {
    json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": code } })
}

/// The status and the JSON of a whole answer.
fn status_and_json(received: &str) -> (u16, Value) {
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {received}")))
}

#[test]
fn a_head_that_does_not_arrive_is_given_up_and_a_connection_that_says_nothing_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), QUICK);
    let late = answer(&server, "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
    assert!(late.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{late}");
    let words = "the request's head did not arrive within 0.2 seconds (server.header_seconds)";
    assert_eq!(status_and_json(&late), (408, refusal(words, "request_timeout")));
    assert_eq!(answer(&server, ""), "");
    // Nor may a second request on the same connection take its time.
    let second = answer(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea");
    assert!(second.starts_with("HTTP/1.1 200 OK\r\n") && second.contains("HTTP/1.1 408 "), "{second}");
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), QUICK);
    let head = |bytes| format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-large: {}\r\n\r\n", "x".repeat(bytes));
    assert!(answer(&server, &head(8000)).starts_with("HTTP/1.1 200 "));
    let words = "the request's head is over the limit of 9000 bytes (server.header_limit_bytes)";
    for bytes in [9000, 100_000] {
        assert_eq!(
            status_and_json(&answer(&server, &head(bytes))),
            (431, refusal(words, "header_too_large")),
            "{bytes}"
        );
    }
    // Many small heads on one connection are none of them too large, and nor is a body.
    let many = head(3000).repeat(9);
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "x".repeat(30_000) }] }).to_string();
    let length = body.len();
    let call =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    let received = answer(&server, &format!("{many}{call}"));
    assert_eq!(
        (received.matches("HTTP/1.1 200 ").count(), received.matches("HTTP/1.1 404 ").count()),
        (9, 1),
        "{received}"
    );
}

#[test]
fn a_client_that_takes_nothing_in_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nwrite_seconds = 0.2\n");
    // More than the sockets' buffers take.
    let bytes = 16 << 20;
    let rollout = json!({ "input": "x".repeat(bytes) });
    let enqueued = server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let path = format!("/v1/agl/rollouts/{}", enqueued[0]["rollout_id"].as_str().unwrap());
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    // Whoever writes to a connection that the server has closed is told so.
    while stream.write_all(b"x").is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut received = Vec::new();
    let ended = stream.read_to_end(&mut received);
    assert!(ended.is_err() || received.len() < bytes, "{} bytes arrived", received.len());
}

#[test]
fn a_body_that_does_not_arrive_is_told_in_the_dialect_of_its_route() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), QUICK);
    let words = "the request body did not arrive within 0.2 seconds (server.body_seconds)";
    let openai = json!({ "error": {
        "message": words, "type": "invalid_request_error", "param": null, "code": "request_timeout",
    } });
    let detail = json!({ "detail": words });
    for (path, expected) in [
        ("/v1/chat/completions", openai.clone()),
        ("/v1/responses", openai),
        ("/v1/agl/queues/rollouts/enqueue", detail.clone()),
        ("/rollout/r/reward", detail),
        ("/v1/traces", json!({ "message": words })),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
        let received = answer(&server, &format!("{head}content-length: 100\r\n\r\n{{\"model\""));
        assert_eq!(status_and_json(&received), (408, expected), "{path}");
    }
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"mo\r\n";
    let (status, error) = status_and_json(&answer(&server, head));
    assert_eq!((status, &error["error"]), (408, &json!({ "type": "invalid_request_error", "message": words })));
}

#[test]
fn times_that_are_none_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let fail = |config: &str| {
        std::fs::write(&file, config).unwrap();
        run(["serve", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()]).failure(directory.path())
    };
    insta::assert_snapshot!(fail("[server]\nshutdown_seconds = 0\n"), @"error: server.shutdown_seconds is 0, but must be a number of seconds above 0");
    insta::assert_snapshot!(fail("[proxy]\nsilence_seconds = nan\n"), @"error: proxy.silence_seconds is NaN, but must be a number of seconds above 0");
    insta::assert_snapshot!(fail("[server]\nbody_seconds = 1e19\n"), @"error: server.body_seconds is 1e19, but no clock goes on for so many seconds");
    insta::assert_snapshot!(fail("[server]\nwatchdog_interval = 1e20\n"), @"error: server.watchdog_interval is 1e20, but no clock goes on for so many seconds (0 looks before each call)");
    insta::assert_snapshot!(fail("[server]\nwatchdog_interval = 1e-10\n"), @"error: server.watchdog_interval is 0.0000000001, but must be a number of seconds above 0 (0 looks before each call)");
    insta::assert_snapshot!(fail("[proxy.budget]\nseconds = -1\n"), @"error: proxy.budget.seconds is -1, but must be a number of seconds");
}
