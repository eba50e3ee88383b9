//! `GET /metrics` after some traffic, and what the documentation says of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::page::{Metric, Page};
use crate::common::{Server, client, eventually, model_flag, text, tiny_model};
use crate::scripted::{ScriptedReply, ScriptedServer, Step, Vllm, generated};

/// The rows of the table in `docs/reference/metrics.md`.
fn documented() -> BTreeMap<String, Metric> {
    let text = include_str!("../../../../docs/reference/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, help] = cells[..] else { panic!("not four cells: {row}") };
        let labels = labels.split_terminator(", ").map(|label| label.trim_matches('`').to_owned()).collect();
        (name.trim_matches('`').to_owned(), Metric { kind: kind.to_owned(), help: help.to_owned(), labels })
    })
    .collect()
}

/// The table as it would be right.
fn table(metrics: &BTreeMap<String, Metric>) -> String {
    let row = |(name, metric): (&String, &Metric)| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {} | {} | {} |\n", metric.kind, labels.join(", "), metric.help).replace("|  |", "| |")
    };
    metrics.iter().map(row).collect()
}

/// Takes a rollout off the queue, and gives the base of its calls' paths.
pub fn attempt(server: &Server) -> String {
    server.enqueue([json!(1)], &json!({}));
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    format!("/rollout/{}/attempt/{}/v1", text(&claimed[0]["rollout_id"]), text(&claimed[0]["attempt"]["attempt_id"]))
}

pub fn request_of(messages: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> =
        messages.iter().map(|(role, content)| json!({ "role": role, "content": content })).collect();
    json!({ "model": "tiny", "messages": messages, "max_tokens": 4, "temperature": 0 })
}

/// Sends a request and reads the beginning of its answer.
fn begin(server: &Server, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let length = body.len();
    let mut socket = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    assert!(socket.read(&mut [0; 100]).unwrap() > 0);
    socket
}

#[test]
fn every_metric_is_documented_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let far = format!("far=vllm:http://127.0.0.1:1,path={}", model.display());
    let arguments = ["--model", &model_flag("tiny", &model), "--model", &far];
    // A collector, so that there is something to say of it: nobody listens on port 1, which drops what waits.
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
    let server = Server::start_in(&environment, directory.path(), arguments);
    let base = attempt(&server);
    server.post(&format!("{base}/chat/completions"), &request_of(&[("user", "Say")])).expect(200);
    let page = Page::of(&server);
    assert_eq!(documented(), page.metrics, "docs/reference/metrics.md should say:\n{}", table(&page.metrics));
}

#[test]
fn rollouts_and_writes_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    attempt(&server);
    let page = Page::of(&server);
    assert_eq!(page.sum("fulgurite_rollout_queue_seconds_count", &[]), 1.0);
    let transactions = page.sum("fulgurite_store_transaction_seconds_count", &[]);
    assert!(transactions >= 2.0);
    assert!(page.sum("fulgurite_store_transaction_writes_sum", &[]) >= transactions);
    assert_eq!(page.sum("fulgurite_store_commit_seconds_bucket", &[("le", "+Inf")]), transactions);
}

#[test]
fn tokens_drift_and_times_are_those_of_the_calls() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let path = format!("{}/chat/completions", attempt(&server));
    let first = server.post(&path, &request_of(&[("user", "Say")])).expect(200);
    let answer = text(&first["choices"][0]["message"]["content"]);
    let history = [("user", "Say"), ("assistant", &answer), ("user", "you are 17.")];
    let second = server.post(&path, &request_of(&history)).expect(200);
    // Another beginning: it continues nothing.
    let third = server.post(&path, &request_of(&[("user", "17.")])).expect(200);
    let completion = json!({ "model": "tiny", "prompt": "Say", "max_tokens": 3, "temperature": 0 });
    let fourth = server.post("/v1/completions", &completion).expect(200);

    let usage = |answer: &Value, kind: &str| answer["usage"][kind].as_f64().unwrap();
    let all = [&first, &second, &third, &fourth];
    let total = |kind: &str| all.iter().map(|answer| usage(answer, kind)).sum::<f64>();
    let page = eventually("all calls to be over", || {
        let page = Page::of(&server);
        (page.sum("gen_ai_server_request_duration_seconds_count", &[]) == 4.0).then_some(page)
    });
    let of_model = [("model", "tiny")];
    assert_eq!(page.sum("fulgurite_prompt_tokens_total", &of_model), total("prompt_tokens"));
    assert_eq!(page.sum("fulgurite_sampled_tokens_total", &of_model), total("completion_tokens"));
    assert_eq!(page.sum("fulgurite_continued_tokens_total", &of_model), usage(&first, "total_tokens"));
    assert_eq!(page.sum("fulgurite_drift_total", &[("model", "tiny"), ("reason", "first_turn")]), 3.0);
    assert_eq!(page.sum("fulgurite_drift_total", &[]), 3.0);
    for (operation, calls) in [("chat", 3.0), ("text_completion", 1.0)] {
        let labels = [
            ("gen_ai_operation_name", operation),
            ("gen_ai_provider_name", "fulgurite"),
            ("gen_ai_request_model", "tiny"),
        ];
        for metric in ["request_duration", "time_to_first_token", "time_per_output_token"] {
            let count = page.sum(&format!("gen_ai_server_{metric}_seconds_count"), &labels);
            assert_eq!(count, calls, "{metric} of {operation}");
        }
        let sum = |metric: &str| page.sum(&format!("gen_ai_server_{metric}_seconds_sum"), &labels);
        assert!(sum("time_to_first_token") > 0.0 && sum("request_duration") > sum("time_to_first_token"));
    }
}

#[test]
fn calls_are_counted_by_how_they_ended() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 20_000);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let calls = |page: &Page, model: &str, endpoint: &str, outcome: &str| {
        page.sum("fulgurite_calls_total", &[("model", model), ("endpoint", endpoint), ("outcome", outcome)])
    };
    let mut streamed = request_of(&[("user", "Say")]);
    streamed["stream"] = json!(true);
    let path = "/v1/chat/completions";
    assert_eq!(server.post(path, &streamed).status, 200);
    server.post("/v1/messages", &request_of(&[("user", "Say")])).expect(200);
    server.post("/v1/responses", &json!({ "model": "tiny", "input": "Say", "max_output_tokens": 2 })).expect(200);
    let mut unknown = streamed.clone();
    unknown["model"] = json!("a\"b\nc");
    server.post(path, &unknown).expect(404);
    server.post(path, &json!({ "model": "tiny", "messages": [] , "temperature": -1 })).expect(400);
    server.post_text("/v1/messages", "{").expect(400);
    server.post("/v1/completions", &json!({ "model": "tiny", "prompt": [100_000] })).expect(400);
    // Nothing of these is a call.
    server.get("/v1/models").expect(200);
    server.post("/v1/messages/count_tokens", &request_of(&[("user", "Say")])).expect(200);

    streamed["max_tokens"] = json!(null);
    let socket = begin(&server, path, &streamed);
    assert_eq!(Page::of(&server).sum("fulgurite_calls_in_flight", &[("model", "tiny")]), 1.0);
    drop(socket);
    let page = eventually("the client to be missed", || {
        let page = Page::of(&server);
        (page.sum("fulgurite_calls_total", &[]) == 8.0).then_some(page)
    });
    assert_eq!(page.sum("fulgurite_calls_in_flight", &[]), 0.0);
    for (model, endpoint, outcome) in [
        ("tiny", "chat_completions", "answered"),
        ("tiny", "messages", "answered"),
        ("tiny", "responses", "answered"),
        ("tiny", "completions", "refused"),
        ("tiny", "chat_completions", "client_gone"),
        ("", "messages", "refused"),
    ] {
        assert_eq!(calls(&page, model, endpoint, outcome), 1.0, "{model} {endpoint} {outcome}: {page:?}");
    }
    assert_eq!(calls(&page, "", "chat_completions", "refused"), 2.0);
}

#[test]
fn hosts_are_told_apart_by_how_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let vllm = Vllm::new(true, true);
    let answer = Step::Event(generated(&[(65, -0.5), (66, -1.5)], Some("length")));
    let steps = std::iter::once(answer).chain(Step::done()).collect();
    vllm.play(ScriptedReply::Stream(steps));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let near = format!("http://{}", listener.local_addr().unwrap());
    let _enter = runtime.enter();
    let _host = ScriptedServer::start_on(listener, move |request| vllm.answer(request));
    let away = "http://127.0.0.1:1";
    let flag = |name: &str, url: &str| format!("{name}=vllm:{url},path={}", model.display());
    // Long enough to give a host up.
    std::fs::write(directory.path().join("serve.toml"), "[proxy]\nhost_patience_seconds = 5").unwrap();
    let models = [flag("near", &near), flag("far", away)];
    let server =
        Server::start(directory.path(), ["--config", "serve.toml", "--model", &models[0], "--model", &models[1]]);
    let mut completion = json!({ "model": "near", "prompt": "Say", "max_tokens": 2 });
    server.post("/v1/completions", &completion).expect(200);
    completion["model"] = json!("far");
    server.post("/v1/completions", &completion).expect(503);

    let near = [("model", "near"), ("host", near.as_str())];
    let far = [("model", "far"), ("host", away)];
    let of = |host: [(&'static str, &str); 2], name: &str, label: &str, page: &Page| {
        page.sum(&format!("fulgurite_backend_{name}"), &[host[0], host[1], ("state", label)])
    };
    let page = eventually("a host to be given up and another to be done", || {
        let page = Page::of(&server);
        let outcomes = page.sum("fulgurite_backend_requests_total", &near);
        (of(far, "circuit", "open", &page) == 1.0 && outcomes == 1.0).then_some(page)
    });
    assert_eq!([of(far, "circuit", "closed", &page), of(near, "circuit", "closed", &page)], [0.0, 1.0]);
    assert_eq!(page.sum("fulgurite_backend_requests_total", &[near[0], ("outcome", "well")]), 1.0);
    assert_eq!(page.sum("fulgurite_backend_queue_seconds_count", &near), 1.0);
    assert_eq!(page.sum("fulgurite_backend_requests_in_flight", &[]), 0.0);
    assert_eq!(page.sum("fulgurite_calls_total", &[("model", "far"), ("outcome", "failed")]), 1.0);
}

#[test]
fn an_answer_that_broke_off_is_resumed_and_only_what_is_sampled_then_counts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let vllm = Vllm::new(true, true);
    let step_of = |token, end| Step::Event(generated(&[(token, -0.5)], end));
    vllm.play(ScriptedReply::Stream(vec![step_of(65, None), Step::Hang(oneshot::channel().0)]));
    vllm.play(ScriptedReply::Stream(std::iter::once(step_of(66, Some("length"))).chain(Step::done()).collect()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = runtime.block_on(ScriptedServer::start(move |request| vllm.answer(request)));
    let flag = format!("tiny=vllm:{},path={}", host.url, model.display());
    let server = Server::start(directory.path(), ["--model", &flag]);
    let body = json!({ "model": "tiny", "prompt": "Say", "max_tokens": 2, "stream": true });
    drop(begin(&server, "/v1/completions", &body));
    let of = |metric: &str, labels: &[(&str, &str)]| Page::of(&server).sum(metric, labels);
    eventually("the client to be missed", || {
        (of("fulgurite_calls_total", &[("outcome", "client_gone")]) == 1.0).then_some(())
    });
    assert_eq!(server.post("/v1/completions", &body).status, 200);
    assert_eq!(of("fulgurite_repeated_calls_total", &[("how", "resumed")]), 1.0);
    assert_eq!(of("fulgurite_sampled_tokens_total", &[]), 2.0);
    assert_eq!(of("fulgurite_backend_requests_total", &[("outcome", "abandoned")]), 1.0);
}

#[test]
fn calls_that_came_before_or_are_made_beside_the_task_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let ask = |header: (&str, &str)| {
        let request = client().post(format!("{}/v1/chat/completions", server.url)).header(header.0, header.1);
        assert_eq!(request.json(&request_of(&[("user", "Say")])).send().unwrap().status(), 200);
    };
    ask(("idempotency-key", "1"));
    ask(("idempotency-key", "1"));
    ask(("x-fulgurite-trainable", "false"));
    let page = Page::of(&server);
    let repeated = |how| page.sum("fulgurite_repeated_calls_total", &[("model", "tiny"), ("how", how)]);
    assert_eq!([repeated("joined") + repeated("replayed"), repeated("resumed")], [1.0, 0.0]);
    assert_eq!(page.sum("fulgurite_auxiliary_calls_total", &[("model", "tiny")]), 1.0);
    assert!(page.sum("fulgurite_sampled_tokens_total", &[]) <= 8.0, "the second was not sampled");
}
