//! Answers that were recorded, and of which nobody knows whether they arrived, because the server was killed.

use std::io::Write;
use std::net::TcpStream;

use crate::common::{Server, eventually, model_flag, text, tiny_model};
use crate::test_database::TestDatabase;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A request in one of the dialects, below an attempt's path.
struct Request {
    path: String,
    body: Value,
    /// Answers to it.
    choices: usize,
}

fn requests(attempt: &str) -> [Request; 4] {
    let user = json!([{ "role": "user", "content": "Say you are 17." }]);
    let chat = json!({ "model": "tiny", "messages": user, "max_tokens": 4 });
    let with = |name: &str, value: Value| {
        let mut body = chat.clone();
        body[name] = value;
        body
    };
    let completions = format!("{attempt}/v1/chat/completions");
    [
        Request { path: completions.clone(), body: with("n", json!(2)), choices: 2 },
        Request { path: completions, body: with("stream", json!(true)), choices: 1 },
        Request { path: format!("{attempt}/v1/messages"), body: chat.clone(), choices: 1 },
        Request {
            path: format!("{attempt}/v1/responses"),
            body: json!({ "model": "tiny", "input": "Say you are 17.", "max_output_tokens": 4 }),
            choices: 1,
        },
    ]
}

/// Sends a request as a client without retries of its own does, which never reads the answer.
fn send_and_not_read(server: &Server, request: &Request) -> TcpStream {
    let mut socket = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let (path, body) = (&request.path, request.body.to_string());
    write!(
        socket,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    )
    .unwrap();
    socket
}

/// The generations of an attempt's calls after this request has been answered again.
fn answered_again(server: &Server, request: &Request) -> Vec<String> {
    let answer = server.post_text(&request.path, request.body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text);
    generations(server)
}

fn generations(server: &Server) -> Vec<String> {
    server.query("generations").iter().map(|generation| text(&generation["generation_id"])).collect()
}

#[test]
fn an_unmarked_retry_after_a_kill_gets_the_answer_that_nobody_saw() {
    for number in 0..4 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(TestDatabase::new());
        let directory = TempDir::new().unwrap();
        let model = model_flag("tiny", &tiny_model(directory.path(), 256));
        let start = || Server::start_on(&database.url, directory.path(), ["--model", &model]);
        let mut server = start();
        let rollout_id = server.enqueue([json!(17)], &json!({})).remove(0);
        let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
        let attempt = format!("/rollout/{rollout_id}/attempt/{}", text(&claimed[0]["attempt"]["attempt_id"]));
        let request = requests(&attempt).into_iter().nth(number).unwrap();

        let unread = send_and_not_read(&server, &request);
        let recorded = eventually("the record", || {
            let recorded = generations(&server);
            (recorded.len() == request.choices).then_some(recorded)
        });
        server.process.kill();
        drop(unread);
        server = start();
        assert_eq!(answered_again(&server, &request), recorded, "{}: it is the same call", request.path);
        // The client has that one now.
        assert_eq!(answered_again(&server, &request).len(), 2 * request.choices, "{}", request.path);
        assert_eq!(server.process.terminate(), Some(0));
        server = start();
        assert_eq!(answered_again(&server, &request).len(), 3 * request.choices, "{}: a clean restart", request.path);
    }
}

#[test]
fn an_answer_that_a_later_call_continues_was_seen_although_the_server_was_killed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::new());
    let directory = TempDir::new().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 256));
    let start = || Server::start_on(&database.url, directory.path(), ["--model", &model]);
    let mut server = start();
    let body =
        json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Say you are 17." }], "max_tokens": 4 });
    let send = |server: &Server, body: &Value| {
        let request = crate::common::client().post(format!("{}/v1/chat/completions", server.url));
        let answer = request
            .header("x-fulgurite-session", "one")
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer: Value = serde_json::from_str(&answer.send().unwrap().text().unwrap()).unwrap();
        (text(&answer["id"]), answer["choices"][0]["message"].clone())
    };
    let (first, message) = send(&server, &body);
    server.process.kill();
    server = start();
    let mut next = body.clone();
    next["messages"].as_array_mut().unwrap().extend([message, json!({ "role": "user", "content": "Once more." })]);
    let (second, _) = send(&server, &next);
    assert_ne!(send(&server, &body).0, first);
    // Nor is the answer that continued it, until its server is killed too.
    assert_ne!(send(&server, &next).0, second);
    let (last, _) = send(&server, &next);
    server.process.kill();
    server = start();
    assert_eq!(send(&server, &next).0, last, "in a session as well");
    assert_ne!(send(&server, &next).0, last);
}
