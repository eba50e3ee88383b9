//! The end of a server: what it has begun it finishes, or cuts short and says so; what comes meanwhile it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::common::{Server, client, eventually, model_flag, text, tiny_model};
use reqwest::blocking::Response;
use serde_json::{Value, json};

fn serve(directory: &Path, shutdown_seconds: f64) -> Server {
    let file = directory.join("config.toml");
    std::fs::write(&file, format!("[server]\nshutdown_seconds = {shutdown_seconds:?}\n")).unwrap();
    let model = model_flag("tiny", &directory.join("model"));
    Server::start(directory, ["--config", file.to_str().unwrap(), "--model", &model])
}

fn signal(server: &Server) {
    assert!(Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status().unwrap().success());
}

/// A greedy answer of so many tokens at most.
fn call(max_tokens: usize) -> Value {
    json!({
        "model": "tiny", "stream": true, "temperature": 0, "max_tokens": max_tokens,
        "messages": [{ "role": "user", "content": "Say" }],
    })
}

/// A stream whose first event has come.
fn started_stream(server: &Server, path: &str, body: &Value) -> BufReader<Response> {
    let response = client().post(format!("{}{path}", server.url)).json(body).send().unwrap();
    assert_eq!(response.status(), 200);
    let mut stream = BufReader::new(response);
    let mut first = String::new();
    stream.read_line(&mut first).unwrap();
    assert!(first.starts_with("data: ") || first.starts_with("event: "), "{first}");
    stream
}

/// A connection that has been used and waits for another request.
fn kept_connection(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).unwrap();
    stream.write_all(b"HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut received = vec![0; 1024];
    let read = stream.read(&mut received).unwrap();
    assert!(received[..read].starts_with(b"HTTP/1.1 200 OK\r\n"));
    stream
}

fn address(server: &Server) -> &str {
    server.url.strip_prefix("http://").unwrap()
}

fn wait_until_it_drains(server: &Server) {
    eventually("new connections to be refused", || TcpStream::connect(address(server)).err());
}

#[test]
fn a_stream_is_finished_and_the_server_ends_with_it() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 4096);
    let mut server = serve(directory.path(), 120.0);
    let mut stream = started_stream(&server, "/v1/chat/completions", &call(2000));
    signal(&server);
    wait_until_it_drains(&server);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"finish_reason\":\"length\"") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert_eq!(server.process.exit_code(), Some(0));
    let generations = server.query("generations");
    assert_eq!(generations.len(), 1);
    assert_eq!((&generations[0]["stop_reason"], &generations[0]["client_gone"]), (&json!("length"), &json!(false)));
}

#[test]
fn what_comes_on_a_kept_connection_meanwhile_is_refused_and_the_connection_closed() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 65_536);
    let mut server = serve(directory.path(), 600.0);
    let kept: Vec<TcpStream> = (0..3).map(|_| kept_connection(&server)).collect();
    let stream = started_stream(&server, "/v1/chat/completions", &call(60_000));
    signal(&server);
    wait_until_it_drains(&server);
    let words = "the server is shutting down";
    let openai =
        json!({ "error": { "message": words, "type": "server_error", "param": null, "code": "shutting_down" } });
    let refusals = [
        ("/v1/chat/completions", openai),
        ("/v1/messages", json!({ "type": "error", "error": { "type": "api_error", "message": words } })),
        ("/v1/agl/queues/rollouts/dequeue", json!({ "detail": words })),
    ];
    for (mut connection, (path, expected)) in kept.into_iter().zip(refusals) {
        write!(connection, "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
        let mut received = String::new();
        connection.read_to_string(&mut received).unwrap();
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        let mut shown: Value = serde_json::from_str(body).unwrap();
        shown.as_object_mut().unwrap().remove("request_id");
        assert_eq!(shown, expected, "{path}");
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nretry-after: 1"), "{head}");
        assert!(head.contains("\r\nconnection: close"), "{head}");
    }
    assert!(!server.process.has_ended());
    // With its client, the last thing to be finished is gone.
    drop(stream);
    assert_eq!(server.process.exit_code(), Some(0));
    assert_eq!(server.query("generations")[0]["client_gone"], json!(true));
}

#[test]
fn what_takes_too_long_is_cut_short_in_its_dialect_and_goes_on_at_the_next_server() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 65_536);
    let mut server = serve(directory.path(), 0.3);
    server.enqueue([json!(1)], &Value::Null);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &Value::Null).expect(200);
    let (rollout, attempt) = (text(&claimed[0]["rollout_id"]), text(&claimed[0]["attempt"]["attempt_id"]));
    let path = format!("/rollout/{rollout}/attempt/{attempt}/v1/chat/completions");
    let mut one = started_stream(&server, &path, &call(60_000));
    let anthropic = json!({
        "model": "tiny", "stream": true, "temperature": 0, "max_tokens": 60_000,
        "messages": [{ "role": "user", "content": "Say" }],
    });
    let mut other = started_stream(&server, "/v1/messages", &anthropic);
    signal(&server);
    let (mut received, mut text_of_other) = (String::new(), String::new());
    one.read_to_string(&mut received).unwrap();
    other.read_to_string(&mut text_of_other).unwrap();
    let error = json!({ "error": {
        "message": "the server is shutting down", "type": "server_error", "param": null, "code": "shutting_down",
    } });
    assert!(received.contains(&format!("data: {error}\n\n")), "{}", &received[received.len() - 400..]);
    assert!(!received.contains("\"finish_reason\":\"length\""));
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the server is";
    assert!(text_of_other.contains(error), "{}", &text_of_other[text_of_other.len() - 400..]);
    assert_eq!(server.process.exit_code(), Some(0));
    let before = server.query("generations");
    assert_eq!(before.len(), 2);
    assert!(before.iter().all(|generation| generation["client_gone"] == true));
    // Both were cut short at once, so that either may have been recorded first.
    let cut = before.iter().find(|generation| generation["rollout_id"] == rollout.as_str()).unwrap();

    // Its client sends the request again, and gets what was sampled before and what follows.
    server = serve(directory.path(), 0.3);
    let mut again = started_stream(&server, &path, &call(60_000));
    let mut length = 0;
    for line in again.by_ref().lines().map(Result::unwrap).filter(|line| line.starts_with("data: ")) {
        length += 1;
        assert!(line.contains(&text(&cut["generation_id"])), "{line}");
        if length == 20 {
            break;
        }
    }
    drop(again);
    server.process.terminate();
    assert_eq!(server.query("generations").len(), 2);
}

#[test]
fn a_second_signal_ends_it_at_once_and_nobody_waits_for_work_any_more() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 65_536);
    let mut server = serve(directory.path(), 600.0);
    let url = format!("{}/v1/agl/queues/rollouts/dequeue", server.url);
    let runner = std::thread::spawn(move || {
        let body = json!({ "worker_id": "w", "wait_seconds": 600.0 });
        client().post(url).json(&body).send().unwrap().text().unwrap()
    });
    eventually("the runner to wait", || server.get("/v1/agl/workers").expect(200)["total"].as_u64().filter(|n| *n > 0));
    let stream = started_stream(&server, "/v1/chat/completions", &call(60_000));
    signal(&server);
    assert_eq!(runner.join().unwrap(), "[]");
    wait_until_it_drains(&server);
    assert!(!server.process.has_ended());
    signal(&server);
    assert_eq!(server.process.exit_code(), Some(0));
    drop(stream);
}
