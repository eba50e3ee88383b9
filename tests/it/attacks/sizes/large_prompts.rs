//! Bodies as large as they may be, and larger: others are served beside them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Server, client, model_flag, peak_bytes, resident_bytes, tiny_model};

const MEGABYTE: usize = 1 << 20;

fn serve(directory: &Path, context_length: usize) -> Server {
    let model = tiny_model(directory, context_length);
    Server::start(directory, ["--model", &model_flag("tiny", &model)])
}

fn chat(content: &str) -> Value {
    json!({ "model": "tiny", "max_tokens": 1, "messages": [{ "role": "user", "content": content }] })
}

/// Text of words that no two pieces of share, so that nothing of it is found encoded already.
fn text(bytes: usize) -> String {
    let words = (0_u64..).map(|place| format!("{:x} ", place.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut text = String::with_capacity(bytes + 20);
    for word in words {
        text.push_str(&word);
        if text.len() >= bytes {
            return text;
        }
    }
    text
}

#[test]
fn an_8_mb_prompt_does_not_stop_other_calls() {
    let directory = tempfile::tempdir().unwrap();
    // Long enough that its bytes alone say nothing.
    let server = serve(directory.path(), 40_000_000);
    let large = chat(&text(8 * MEGABYTE)).to_string();
    let url = server.url.as_str();
    let healthy = |until: &dyn Fn() -> bool| {
        let (client, begin, mut answered) = (reqwest::blocking::Client::new(), Instant::now(), 0_u32);
        while !until() {
            assert_eq!(client.get(format!("{url}/healthz")).send().unwrap().status(), 200);
            answered += 1;
        }
        f64::from(answered) / begin.elapsed().as_secs_f64()
    };
    let begin = Instant::now();
    let alone = healthy(&|| begin.elapsed() > Duration::from_secs(2));
    let (is_over, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let meanwhile = std::thread::scope(|scope| {
        scope.spawn(|| {
            let counted = client().post(format!("{url}/v1/messages/count_tokens")).body(large).send();
            // Others stop whatever came of it.
            is_over.store(true, Ordering::Release);
            assert_eq!(counted.unwrap().status(), 200);
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                server.post("/v1/chat/completions", &chat("Say")).expect(200);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        healthy(&|| is_over.load(Ordering::Acquire))
    });
    let ratio = meanwhile / alone;
    eprintln!("/healthz beside it: {ratio:.2} of {alone:.0} a second, {calls:?} calls");
    // Three threads share with it what one had alone; that it is not stopped is what must hold everywhere.
    assert!(ratio > 0.1, "{meanwhile} a second beside {alone}");
    assert!(calls.load(Ordering::Relaxed) >= 3, "{calls:?} calls beside it");
}

#[test]
fn a_prompt_that_no_context_holds_is_refused_by_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 2048);
    let body = chat(&text(30 * MEGABYTE));
    let refused = server.post("/v1/chat/completions", &body).expect(400);
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(
        words.starts_with("This model's maximum context length is 2048 tokens. However, your request has"),
        "{words}"
    );
    let refused = server.post("/v1/messages", &body).expect(400);
    assert_eq!(refused["error"]["type"], "invalid_request_error");
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("prompt is too long: "), "{refused}");
    // What is a little too long is told in tokens, as before.
    let refused = server.post("/v1/chat/completions", &chat(&text(100_000))).expect(400);
    assert!(refused["error"]["message"].as_str().unwrap().contains("your messages resulted in"), "{refused}");
}

/// What a server says to a head and the beginning of a body, of which the rest does not come.
fn answer_to_head(server: &Server, path: &str, length: u64) -> String {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: {length}\r\n\r\n{{").as_bytes()).unwrap();
    let mut received = String::new();
    let mut buffer = [0; 4096];
    while !received.contains('}') {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => received.push_str(std::str::from_utf8(&buffer[..read]).unwrap()),
        }
    }
    received
}

#[test]
fn a_content_length_over_the_limit_is_refused_before_the_body_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 2048);
    let words = format!("the request body is over the limit of {} bytes (server.body_limit_bytes)", 32 * MEGABYTE);
    for path in [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/v1/agl/queues/rollouts/enqueue",
        "/v1/traces",
        "/api/v1/asample",
    ] {
        for length in [33 * MEGABYTE as u64, 1 << 40] {
            let received = answer_to_head(&server, path, length);
            assert!(received.starts_with("HTTP/1.1 413 ") && received.contains(&words), "{path} {length}: {received}");
        }
    }
}

#[test]
fn a_chunked_body_is_refused_where_it_passes_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 2048);
    // So little over it that the client has sent all when it is answered.
    let endless = std::io::repeat(b' ').take(32 * MEGABYTE as u64 + 1000);
    let answered = server.post_text("/v1/chat/completions", reqwest::blocking::Body::new(endless));
    assert_eq!(answered.expect(413)["error"]["code"], "request_too_large");
}

/// A template that takes all its time, in steps that each look through a long text, for a conversation that ends with `stall`.
const STALLING: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
    {% if messages[-1].content == 'stall' %}{% set s = 'a' * 2000000 %}{% for a in range(100000) %}{% for b in range(30) %}\
    {% if s|length < 1 %}{% endif %}{% endfor %}{% endfor %}{% endif %}{{ '<|im_start|>assistant\\n' }}";

#[test]
fn a_template_that_stalls_on_small_requests_stops_neither_others_nor_the_servers_end() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 4096);
    let config = model.join("tokenizer_config.json");
    let mut fields: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    fields["chat_template"] = STALLING.into();
    std::fs::write(&config, fields.to_string()).unwrap();
    let settings = directory.path().join("config.toml");
    std::fs::write(&settings, "[server]\nshutdown_seconds = 0.1\n").unwrap();
    let flag = format!("{},renderer=template", model_flag("tiny", &model));
    let mut server = Server::start(directory.path(), ["--config", settings.to_str().unwrap(), "--model", &flag]);
    let body = chat("stall").to_string();
    let stalled: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
            let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
            stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(server.get("/healthz").status, 200);
        server.post("/v1/chat/completions", &chat("Say")).expect(200);
    }
    let unanswered = stalled.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(unanswered.count() > 1, "others were answered only after all that stall");
    assert_eq!(server.process.terminate(), Some(0));
}

#[test]
fn json_that_is_100_000_deep_is_refused_wherever_it_stands() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 4_000_000);
    let before = resident_bytes(server.process.id());
    let lists = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let marks = [("lists", &lists), ("objects", &objects)];
    for (kind, deep) in marks {
        let text = Value::from(deep.as_str()).to_string();
        let messages = r#""messages":[{"role":"user","content":"a"}]"#;
        let call = |arguments: &str| {
            format!(
                r#"{{"model":"tiny","max_tokens":1,"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}},{{"role":"tool","tool_call_id":"c","content":"r"}}]}}"#
            )
        };
        let refused = [
            ("/v1/chat/completions", deep.clone()),
            ("/v1/chat/completions", format!(r#"{{"model":"tiny","messages":[{{"role":"user","content":{deep}}}]}}"#)),
            ("/v1/chat/completions", format!(r#"{{"model":"tiny","x":{deep},{messages}}}"#)),
            ("/v1/chat/completions", call(deep)),
            (
                "/v1/chat/completions",
                format!(
                    r#"{{"model":"tiny",{messages},"tools":[{{"type":"function","function":{{"name":"f","parameters":{deep}}}}}]}}"#
                ),
            ),
            (
                "/v1/messages",
                format!(
                    r#"{{"model":"tiny","max_tokens":1,{messages},"tools":[{{"name":"f","input_schema":{deep}}}]}}"#
                ),
            ),
            ("/v1/responses", format!(r#"{{"model":"tiny","input":{deep}}}"#)),
            ("/v1beta/models/tiny:generateContent", format!(r#"{{"contents":{deep}}}"#)),
        ];
        for (path, body) in refused {
            let answer = server.post_text(path, body);
            assert_eq!(answer.status, 400, "{kind} {path}: {:.300}", answer.text);
            assert!(answer.text.contains("deep") || answer.text.contains("recursion"), "{path}: {:.300}", answer.text);
        }
        // Arguments of a call are text, which need not be JSON.
        let answer = server.post_text("/v1/chat/completions", call(&text));
        assert!([200, 400].contains(&answer.status), "{kind}: {:.300}", answer.text);
        eprintln!("{kind} as text: {:.300}", answer.text);
    }
    server.post("/v1/chat/completions", &chat("Say")).expect(200);
    let grown = peak_bytes(server.process.id()).saturating_sub(before);
    assert!(grown < 400 << 20, "{grown} bytes");
}
