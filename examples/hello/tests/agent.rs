//! The agent against a scripted model server: what it sends, what it prints, when it tries again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

/// Runs `hello-agent 17` against a server that gives `replies` (status line, body) one after another, each on a
/// connection of its own, and returns what the agent did and the requests (head and body) that the server saw.
fn run_agent(replies: &[(&'static str, &'static str)]) -> (Output, Vec<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let replies = replies.to_vec();
    let server = thread::spawn(move || replies.iter().map(|reply| answer(&listener, reply)).collect());
    let output = Command::new(env!("CARGO_BIN_EXE_hello-agent"))
        .arg("17")
        .env("OPENAI_BASE_URL", base_url)
        .env("OPENAI_API_KEY", "key-of-the-test")
        .env_remove("HELLO_MODEL")
        .output()
        .unwrap();
    (output, server.join().unwrap())
}

fn answer(listener: &TcpListener, (status, body): &(&str, &str)) -> (String, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    let head = head.to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent).unwrap();
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    reader.get_mut().write_all(reply.as_bytes()).unwrap();
    (head, String::from_utf8(sent).unwrap())
}

const STOPPED: &str = r#"{"choices":[{"message":{"role":"assistant","content":"I am 17."},"finish_reason":"stop"}]}"#;

#[test]
fn prints_the_reply_of_one_chat_completion() {
    let (output, requests) = run_agent(&[("200 OK", STOPPED)]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "I am 17.\n");
    assert!(output.status.success());
    let (head, body) = &requests[0];
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer key-of-the-test\r\n"), "{head}");
    assert!(body.contains(r#""content":"Let's play a game. Say you are 17.""#), "{body}");
    assert!(body.contains(r#""model":"hello""#), "{body}");
}

#[test]
fn tries_once_more_after_a_servers_error() {
    let (output, requests) = run_agent(&[("503 Service Unavailable", "{}"), ("200 OK", STOPPED)]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "I am 17.\n");
    for (count, (head, _)) in requests.iter().enumerate() {
        assert!(head.contains(&format!("x-stainless-retry-count: {count}\r\n")), "{head}");
    }
    assert_eq!(requests.len(), 2);
}

#[test]
fn gives_up_with_the_servers_words() {
    let (output, _) = run_agent(&[("503 Service Unavailable", "{}"), ("500 Internal Server Error", "out of glass")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("500 Internal Server Error: out of glass"));
}

#[test]
fn does_not_repeat_what_the_server_refused() {
    let (output, requests) = run_agent(&[("401 Unauthorized", "no such key")]);
    assert_eq!((output.status.code(), requests.len()), (Some(1), 1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such key"));
}
