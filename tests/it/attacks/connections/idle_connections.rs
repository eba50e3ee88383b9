//! Connections that say nothing, or never come to an end of what they say.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

use serde_json::json;

use crate::common::{Server, eventually, model_flag, tiny_model};

const CONNECTIONS: u64 = 9_000;
/// What server and test need beside them.
const OTHERS: u64 = 500;

/// Lets this process, and those that it starts, open as many files as it may; how many that is.
fn raise_file_limit() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let hard = line.split_whitespace().rev().find_map(|word| word.parse().ok()).unwrap_or(1 << 20);
    let (id, limit) = (std::process::id().to_string(), format!("--nofile={hard}:{hard}"));
    assert!(Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
    hard
}

fn open_files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[test]
fn thousands_of_idle_connections_keep_nobody_else_waiting() {
    let wanted = CONNECTIONS.min(raise_file_limit().saturating_sub(OTHERS));
    if wanted < CONNECTIONS {
        eprintln!("{wanted} of {CONNECTIONS} connections: the limit of open files permits no more");
    }
    let directory = tempfile::tempdir().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 128));
    let server = Server::start(directory.path(), ["--model", &model]);
    let before = open_files(server.process.id());
    let address = server.url.strip_prefix("http://").unwrap();
    let mut connections = Vec::new();
    for number in 0..wanted {
        let mut connection = TcpStream::connect(address).unwrap();
        match number % 3 {
            0 => {}
            1 => connection.write_all(b"POST /v1/chat/completions HTT").unwrap(),
            _ => connection
                .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
                .unwrap(),
        }
        connections.push(connection);
    }
    eventually("the connections", || (open_files(server.process.id()) as u64 >= wanted / 2).then_some(()));
    let body = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Say" }], "max_tokens": 4 });
    for _ in 0..3 {
        server.post("/v1/chat/completions", &body).expect(200);
    }
    drop(connections);
    eventually("all to be closed", || (open_files(server.process.id()) < before + 50).then_some(()));
    server.post("/v1/chat/completions", &body).expect(200);
}
