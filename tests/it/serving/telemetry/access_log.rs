//! The log of requests: what stands in it, and what never does.

use std::path::Path;

use super::metrics::{attempt, request_of};
use crate::common::{Server, client, eventually, model_flag, tiny_model};
use serde_json::json;

const SECRET: &str = "sk-verysecret";
const SECRET_PROMPT: &str = "Say you are 17.";

/// The server's log once it has so many lines of requests.
fn log_of(directory: &Path, requests: usize) -> String {
    eventually("the log", || {
        let log = std::fs::read_to_string(directory.join("serve.log")).unwrap();
        (log.matches("fulgurite::access").count() >= requests).then_some(log)
    })
}

/// The line of a request, without what differs from run to run.
fn line(log: &str, route: &str) -> String {
    let found = log.lines().find(|line| line.contains(route)).unwrap_or_else(|| panic!("{route} in {log}"));
    let fields = &found[found.find("method").unwrap()..];
    let word = |word: &str| match word.split_once('=') {
        Some((field @ ("milliseconds" | "bytes"), _)) => format!("{field}=N"),
        _ => word.to_owned(),
    };
    fields.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A server that is to log requests, with a filter of the log.
fn with_access_log(filter: &str, directory: &Path) -> Server {
    let config = directory.join("c.toml");
    std::fs::write(&config, "[server]\naccess_log = true\n").unwrap();
    Server::start_in(&[("RUST_LOG", filter)], directory, ["--config", config.to_str().unwrap()])
}

#[test]
fn a_request_has_one_line_and_nothing_that_was_said_or_sent_as_a_key_stands_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let config = directory.path().join("c.toml");
    std::fs::write(&config, "[server]\naccess_log = true\n").unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--model", &model_flag("tiny", &model)];
    for level in ["warn,fulgurite::access=info", "debug"] {
        let server = Server::start_in(&[("RUST_LOG", level)], directory.path(), arguments);
        let base = attempt(&server);
        let ask = |path: &str, stream: bool| {
            let mut body = request_of(&[("user", SECRET_PROMPT)]);
            body["stream"] = stream.into();
            let request = client().post(format!("{}{path}?key={SECRET}", server.url)).json(&body);
            let request = request.header("x-api-key", SECRET).bearer_auth(SECRET);
            request.send().unwrap().text().unwrap()
        };
        let replies = [ask(&format!("{base}/chat/completions"), false), ask("/v1/messages", true)];
        assert!(replies[0].contains("\"content\":") && replies[1].contains("message_stop"), "{replies:?}");
        ask(&format!("/{SECRET}"), false);
        let log = log_of(directory.path(), 5);
        let (rollout, attempt) = base[9..].split_once("/attempt/").unwrap();
        let attempt = attempt.trim_end_matches("/v1");
        let chat = "/rollout/{rollout_id}/attempt/{attempt_id}/v1/chat/completions";
        assert_eq!(
            line(&log, chat),
            format!(
                "method=\"POST\" route=\"{chat}\" status=200 milliseconds=N bytes=N rollout=\"{rollout}\" \
                 attempt=\"{attempt}\" model=\"tiny\" prompt_tokens=26 sampled_tokens=4"
            )
        );
        assert_eq!(
            line(&log, "\"/v1/messages\""),
            "method=\"POST\" route=\"/v1/messages\" status=200 milliseconds=N bytes=N model=\"tiny\" \
             prompt_tokens=26 sampled_tokens=4"
        );
        assert_eq!(line(&log, "status=404"), "method=\"POST\" path=\"/*\" status=404 milliseconds=N bytes=N");
        for secret in [SECRET, SECRET_PROMPT, "you are"] {
            assert!(!log.contains(secret), "{secret} at {level}: {log}");
        }
    }
}

#[test]
fn a_key_of_a_client_of_googles_stands_in_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let config = directory.path().join("c.toml");
    std::fs::write(&config, "[server]\naccess_log = true\n").unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--model", &model_flag("tiny", &model)];
    let body = json!({
        "contents": [{ "parts": [{ "text": SECRET_PROMPT }] }],
        "generationConfig": { "maxOutputTokens": 4 },
    });
    for level in ["warn,fulgurite::access=info", "debug"] {
        let server = Server::start_in(&[("RUST_LOG", level)], directory.path(), arguments);
        let ask = |path: &str| {
            let request = client().post(format!("{}/v1beta/models/{path}", server.url)).json(&body);
            request.header("x-goog-api-key", SECRET).send().unwrap().text().unwrap()
        };
        let whole = ask(&format!("tiny:generateContent?key={SECRET}"));
        let streamed = ask(&format!("tiny:streamGenerateContent?alt=sse&key={SECRET}"));
        assert!(whole.contains("\"candidates\"") && streamed.starts_with("data: "), "{whole} {streamed}");
        ask(&format!("none:generateContent?key={SECRET}"));
        ask(&format!("tiny:nothing?key={SECRET}"));
        let log = log_of(directory.path(), 4);
        let answered = line(&log, "{*model}");
        assert!(answered.starts_with("method=\"POST\" route=\"/v1beta/models/{*model}\" status=200 "), "{answered}");
        for secret in [SECRET, SECRET_PROMPT, "you are"] {
            assert!(!log.contains(secret), "{secret} at {level}: {log}");
        }
    }
}

#[test]
fn a_head_request_is_no_client_that_left() {
    let directory = tempfile::tempdir().unwrap();
    let server = with_access_log("debug", directory.path());
    client().head(format!("{}/healthz", server.url)).send().unwrap();
    assert_eq!(
        line(&log_of(directory.path(), 1), "\"/healthz\""),
        "method=\"HEAD\" route=\"/healthz\" status=200 milliseconds=N bytes=N"
    );
}

#[test]
fn requests_are_logged_unless_the_filter_names_them() {
    for (filter, is_logged) in [("warn", true), ("off", true), ("debug,fulgurite::access=off", false)] {
        let directory = tempfile::tempdir().unwrap();
        let mut server = with_access_log(filter, directory.path());
        server.get("/healthz").expect(200);
        server.process.terminate();
        let log = std::fs::read_to_string(directory.path().join("serve.log")).unwrap();
        assert_eq!(log.contains("route=\"/healthz\" status=200"), is_logged, "{filter}: {log}");
    }
}

#[test]
fn nothing_is_logged_unless_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), [] as [&str; 0]);
    server.get("/healthz").expect(200);
    server.process.terminate();
    assert_eq!(std::fs::read_to_string(directory.path().join("serve.log")).unwrap(), "");
}
