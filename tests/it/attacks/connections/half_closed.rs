//! Clients that close their half of a connection after a request, and clients that close all of it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use crate::common::{Server, eventually, in_flight, model_flag, sum_of_metric, tiny_model};

/// As long a completion as the model's context has room for.
const LONG: usize = 60_000;
const CONTEXT: usize = 1 << 16;

/// A connection over which a chat request has been sent.
fn ask(server: &Server, max_tokens: usize, streams: bool, version: &str) -> TcpStream {
    // Another request each time, which is no retry of one that was broken off.
    let messages = [json!({ "role": "user", "content": format!("Say {max_tokens} {streams} {version}") })];
    // At temperature 0 this model never comes to an end by itself.
    let body = json!({
        "model": "tiny", "messages": messages, "max_tokens": max_tokens, "stream": streams, "temperature": 0,
    })
    .to_string();
    let head = format!(
        "POST /v1/chat/completions {version}\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json"
    );
    let mut connection = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    // What is sent leaves with the end of what is sent, if that comes at once.
    rustix::net::sockopt::set_tcp_cork(&connection, true).unwrap();
    write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    connection
}

/// How many calls have had their first token.
fn first_tokens(server: &Server) -> f64 {
    sum_of_metric(server, "gen_ai_server_time_to_first_token_seconds_count")
}

/// What is left of all that a client reads when the interim responses are taken away.
fn final_response(mut connection: TcpStream) -> String {
    let mut read = String::new();
    connection.read_to_string(&mut read).unwrap();
    let mut rest = read.as_str();
    while let Some(after) = rest.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n") {
        rest = after;
    }
    rest.to_owned()
}

#[test]
fn a_client_that_closes_its_half_gets_its_answer_and_one_that_has_gone_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), CONTEXT));
    let server = Server::start(directory.path(), ["--model", &model]);

    for streams in [false, true] {
        let connection = ask(&server, 400, streams, "HTTP/1.1");
        connection.shutdown(Shutdown::Write).unwrap();
        let response = final_response(connection);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(!response.contains("100 Continue"), "{response}");
        assert!(response.contains(r#""finish_reason":"length""#), "{response}");
        assert!(!streams || response.contains("[DONE]"), "{response}");
    }
    let whole = server.query("generations");
    assert!(whole.iter().all(|generation| generation["client_gone"] == json!(false)), "{whole:?}");

    for (streams, version) in [(false, "HTTP/1.1"), (true, "HTTP/1.1"), (false, "HTTP/1.0")] {
        let known = server.query("generations").len();
        let before = first_tokens(&server);
        let connection = ask(&server, LONG, streams, version);
        rustix::net::sockopt::set_tcp_cork(&connection, false).unwrap();
        eventually("the first token", || (first_tokens(&server) > before).then_some(()));
        drop(connection);
        eventually("the call to end", || (in_flight(&server) == 0.0).then_some(()));
        let generations = eventually(&format!("the record of a call over {version}, streamed {streams}"), || {
            Some(server.query("generations")).filter(|generations| generations.len() > known)
        });
        let newest: Vec<&Value> = generations.iter().filter(|generation| generation["client_gone"] == true).collect();
        assert!(!newest.is_empty(), "a client that had gone was waited for: {generations:?}");
    }
    let disconnected =
        server.query("generations").iter().filter(|generation| generation["client_gone"] == true).count();
    assert_eq!(disconnected, 3);
}
