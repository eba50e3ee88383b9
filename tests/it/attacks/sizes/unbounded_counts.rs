//! Every count that a client sends, as no client means it: refused by name, and nothing is made of it before.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{HttpAnswer, Server, tiny_model};

/// What stands for a count: more than there can be, at the ends of what numbers hold, below zero, and no whole number.
const COUNTS: [&str; 7] =
    ["1000000000", "2147483648", "9223372036854775808", "18446744073709551616", "-1", "1e308", "1.5"];

fn serve(directory: &Path) -> Server {
    let model = tiny_model(directory, 128);
    let config = directory.join("c.toml");
    let models = format!("[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = {model:?}\n");
    std::fs::write(&config, models).unwrap();
    Server::start(directory, ["--config".as_ref(), config.as_os_str()])
}

/// Posts a body in which a field, `a.b` below another, has a value that Rust's numbers may not hold.
fn post(server: &Server, path: &str, body: &Value, field: &str, value: &str) -> HttpAnswer {
    let mut body = body.clone();
    let place = field.split('.').fold(&mut body, |place, name| &mut place[name]);
    *place = json!("@");
    server.post_text(path, body.to_string().replace("\"@\"", value))
}

/// Peak of the memory that the server has held, in bytes.
fn peak_memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn counts_that_nobody_means_take_no_memory_and_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let chat = json!({ "model": "tiny", "max_tokens": 1, "messages": [{ "role": "user", "content": "Say" }] });
    let text = json!({ "model": "tiny", "max_tokens": 1, "prompt": "Say" });
    let mut with_logprobs = chat.clone();
    with_logprobs["logprobs"] = json!(true);
    let response = json!({ "model": "tiny", "max_output_tokens": 1, "input": "Say" });
    let session = server.post("/api/v1/create_session", &json!({ "tags": [], "sdk_version": "0" })).expect(200);
    let sampler = server.post(
        "/api/v1/create_sampling_session",
        &json!({ "session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "tiny" }),
    );
    let sample = json!({
        "sampling_session_id": sampler.expect(200)["sampling_session_id"], "num_samples": 1,
        "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [1, 2] }] },
        "sampling_params": { "max_tokens": 1 },
    });
    let before = peak_memory(&server);
    // Those that a limit of the answer may be beyond: the context ends it first.
    let may_be_large = ["max_tokens", "max_completion_tokens", "max_output_tokens", "top_k", "seed"];
    for (path, body, fields) in [
        ("/v1/chat/completions", &chat, &["n", "max_tokens", "max_completion_tokens"][..]),
        ("/v1/chat/completions", &with_logprobs, &["top_logprobs"]),
        ("/v1/completions", &text, &["n", "best_of", "logprobs", "max_tokens"]),
        ("/v1/responses", &response, &["max_output_tokens", "top_logprobs"]),
        ("/v1/messages", &chat, &["max_tokens"]),
        (
            "/api/v1/asample",
            &sample,
            &[
                "num_samples",
                "topk_prompt_logprobs",
                "topk_sample_logprobs",
                "prompt_alt_tokens_k",
                "sampling_params.max_tokens",
            ],
        ),
    ] {
        for field in fields {
            for value in COUNTS {
                // A limit that is only large is one.
                let last = field.rsplit('.').next().unwrap();
                let is_accepted = may_be_large.contains(&last) && !["-1", "1e308", "1.5"].contains(&value);
                let answered = post(&server, path, body, field, value);
                let is_refused = [400, 422].contains(&answered.status) && answered.text.contains(last);
                let is_answered = is_accepted && answered.status == 200;
                assert!(is_refused || is_answered, "{path} {field} {value}: {} {}", answered.status, answered.text);
            }
        }
    }
    let grown = peak_memory(&server) - before;
    assert!(grown < 100 << 20, "it took {grown} bytes");
}

#[test]
fn lists_of_a_model_request_are_bounded_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let chat = json!({ "model": "tiny", "max_tokens": 1, "messages": [{ "role": "user", "content": "Say" }] });
    let text = json!({ "model": "tiny", "max_tokens": 1, "prompt": "Say" });
    let response = json!({ "model": "tiny", "max_output_tokens": 1, "input": "Say" });
    let repeat = |item: Value, count: usize| Value::from(vec![item; count]);
    let biases = json!((0..1025).map(|id| (id.to_string(), json!(1))).collect::<serde_json::Map<_, _>>());
    let function = json!({ "type": "function", "function": { "name": "f" } });
    let (flat, own) = (json!({ "type": "function", "name": "f" }), json!({ "name": "f", "input_schema": {} }));
    for (path, body, field, value, limit) in [
        ("/v1/chat/completions", &chat, "logit_bias", biases.clone(), "at most 1024"),
        ("/v1/chat/completions", &chat, "tools", repeat(function, 1025), "at most 1024"),
        ("/v1/chat/completions", &chat, "stop", repeat(json!("x"), 65), "at most 64"),
        ("/v1/chat/completions", &chat, "stop", json!("x".repeat(1025)), "at most 1024"),
        ("/v1/completions", &text, "logit_bias", biases.clone(), "at most 1024"),
        ("/v1/completions", &text, "stop", repeat(json!("x"), 65), "at most 64"),
        ("/v1/completions", &text, "stop", json!(["y", "x".repeat(1025)]), "at most 1024"),
        ("/v1/responses", &response, "tools", repeat(flat, 1025), "at most 1024"),
        ("/v1/messages", &chat, "tools", repeat(own.clone(), 1025), "at most 1024"),
        ("/v1/messages/count_tokens", &chat, "tools", repeat(own, 1025), "at most 1024"),
        ("/v1/messages", &chat, "stop_sequences", repeat(json!("x"), 65), "at most 64"),
        ("/v1/messages", &chat, "stop_sequences", json!(["x".repeat(1025)]), "at most 1024"),
    ] {
        let mut body = body.clone();
        body[field] = value;
        let error = server.post(path, &body).expect(400)["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(field) && message.contains(limit), "{path} {field}: {error}");
        assert_eq!(error["type"], "invalid_request_error", "{path} {field}: {error}");
    }
    let mut largest = chat;
    largest["stop"] = repeat(json!("x".repeat(1024)), 64);
    server.post("/v1/chat/completions", &largest).expect(200);

    let session = server.post("/api/v1/create_session", &json!({ "tags": [], "sdk_version": "0" })).expect(200);
    let opened = json!({ "session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "tiny" });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"].clone();
    for stop in [repeat(json!("x"), 65), json!("x".repeat(1025)), repeat(json!(7), 1025)] {
        let request = json!({
            "sampling_session_id": sampler, "num_samples": 1,
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [1, 2] }] },
            "sampling_params": { "max_tokens": 1, "stop": stop },
        });
        let refused = server.post("/api/v1/asample", &request).expect(400);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.starts_with("stop") && detail.contains("at most"), "{detail}");
    }
}

#[test]
fn parts_of_lists_that_nobody_means_are_refused_or_end_where_the_list_does() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    for path in [
        "/v1/agl/rollouts",
        "/v1/agl/workers",
        "/v1/agl/resources",
        "/v1/fulgurite/generations",
        "/v1/fulgurite/rewarded-attempts",
    ] {
        for name in ["limit", "offset", "after"] {
            for value in COUNTS {
                let answered = server.get(&format!("{path}?{name}={value}"));
                assert!([200, 400, 422].contains(&answered.status), "{path} {name} {value}: {answered:?}");
                assert!(!answered.text.contains("usize"), "{path} {name} {value}: {answered:?}");
            }
        }
    }
    for value in COUNTS {
        let answered = post(&server, "/v1/agl/queues/rollouts/dequeue", &json!({}), "limit", value);
        assert!([200, 400, 422].contains(&answered.status), "{value}: {answered:?}");
    }
    server.get("/healthz").expect(200);
}
