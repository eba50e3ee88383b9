//! Calls as spans at a collector of OpenTelemetry's: one that listens, fails, refuses, hangs, or is not there.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::metrics::{attempt, request_of};
use super::page::Page;
use crate::common::{Server, eventually, model_flag, text, tiny_model};

const SECRET_PROMPT: &str = "Say you are 17.";

/// How the collector answers once.
#[derive(Clone, Copy)]
enum Scripted {
    Fail(StatusCode),
    Hang,
}

/// Takes all exports, but for what is scripted.
struct Collector {
    url: String,
    got: Arc<Got>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Got {
    script: Mutex<VecDeque<Scripted>>,
    exports: Mutex<Vec<(HeaderMap, Bytes)>>,
}

impl Collector {
    fn start(script: impl IntoIterator<Item = Scripted>) -> Self {
        let got = Arc::new(Got { script: Mutex::new(script.into_iter().collect()), ..Got::default() });
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(got.clone());
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, got, _runtime: runtime }
    }

    /// The spans of all exports that were taken, once there are so many.
    fn spans(&self, count: usize) -> Vec<Span> {
        eventually("the spans", || {
            let spans: Vec<Span> = self
                .exports()
                .into_iter()
                .flat_map(|(_, body)| read(&body).into_iter().map(|(_, span)| span))
                .collect();
            (spans.len() >= count).then_some(spans)
        })
    }

    fn exports(&self) -> Vec<(HeaderMap, Bytes)> {
        self.got.exports.lock().unwrap().clone()
    }
}

async fn take(State(got): State<Arc<Got>>, headers: HeaderMap, body: Bytes) -> Response {
    let scripted = got.script.lock().unwrap().pop_front();
    match scripted {
        Some(Scripted::Fail(status)) => (status, [("retry-after", "0")]).into_response(),
        Some(Scripted::Hang) => std::future::pending().await,
        None => {
            got.exports.lock().unwrap().push((headers, body));
            StatusCode::OK.into_response()
        }
    }
}

/// The spans of an export, each with the attributes of its resource.
fn read(body: &[u8]) -> Vec<(Value, Span)> {
    let export = ExportTraceServiceRequest::decode(body).unwrap();
    let groups = export.resource_spans.into_iter().map(|group| {
        let resource = attributes(&group.resource.unwrap().attributes);
        (resource, group.scope_spans.into_iter().flat_map(|scope| scope.spans))
    });
    groups.flat_map(|(resource, spans)| spans.map(move |span| (resource.clone(), span))).collect()
}

/// As JSON: strings, whole numbers, and whatever else as null.
fn attributes(pairs: &[KeyValue]) -> Value {
    let value = |pair: &KeyValue| match pair.value.clone().and_then(|value| value.value) {
        Some(AnyValue::StringValue(text)) => json!(text),
        Some(AnyValue::IntValue(number)) => json!(number),
        _ => Value::Null,
    };
    pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

/// Serves `tiny`, with that config and environment.
fn serve(directory: &Path, config: &str, environment: &[(&str, &str)]) -> Server {
    let model = tiny_model(directory, 64);
    let file = directory.join("c.toml");
    std::fs::write(&file, config).unwrap();
    Server::start_in(
        environment,
        directory,
        ["--config", file.to_str().unwrap(), "--model", &model_flag("tiny", &model)],
    )
}

fn exporting_to(url: &str) -> String {
    format!("[telemetry]\notlp_endpoint = \"{url}\"\n")
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("serve.log")).unwrap()
}

fn sent(server: &Server) -> f64 {
    Page::of(server).sum("fulgurite_otlp_spans_sent_total", &[])
}

fn dropped(server: &Server, reason: &str) -> f64 {
    Page::of(server).sum("fulgurite_otlp_spans_dropped_total", &[("reason", reason)])
}

#[test]
fn a_call_is_a_span_that_says_whose_it_is_but_not_what_was_said() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start([]);
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20very-secret"),
        ("RUST_LOG", "debug"),
    ];
    let server = serve(directory.path(), "", &environment);
    let base = attempt(&server);
    let answer = server.post(&format!("{base}/chat/completions"), &request_of(&[("user", SECRET_PROMPT)])).expect(200);
    collector.spans(1);
    let (headers, body) = &collector.exports()[0];
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["authorization"], "Bearer very-secret");
    let [(resource, span)] = &read(body)[..] else { panic!("not one span") };
    assert_eq!((&resource["service.name"], span.kind), (&json!("fulgurite"), 3));
    let (rollout, attempt) = base[9..base.len() - 3].split_once("/attempt/").unwrap();
    let exported = attributes(&span.attributes);
    for (key, expected) in [
        ("agentlightning.rollout_id", json!(rollout)),
        ("agentlightning.attempt_id", json!(attempt)),
        ("agentlightning.span_sequence_id", json!(1)),
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("fulgurite")),
        ("gen_ai.request.model", json!("tiny")),
        ("gen_ai.response.id", answer["id"].clone()),
        ("gen_ai.usage.input_tokens", answer["usage"]["prompt_tokens"].clone()),
        ("gen_ai.usage.output_tokens", answer["usage"]["completion_tokens"].clone()),
        ("fulgurite.departure.reason", json!("first_turn")),
    ] {
        assert_eq!(exported[key], expected, "{key} in {exported}");
    }
    assert!(!String::from_utf8_lossy(body).contains(SECRET_PROMPT));
    let stored = server.query("spans").into_iter().find(|span| span["name"] != "raw_gen_ai_request").unwrap();
    assert_eq!(text(&stored["span_id"]), span.span_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let log = log(directory.path());
    assert!(!log.contains("very-secret") && !log.contains(SECRET_PROMPT), "{log}");
}

#[test]
fn what_was_said_is_sent_where_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start([]);
    let server = serve(directory.path(), &format!("{}content = true\n", exporting_to(&collector.url)), &[]);
    server.post("/v1/messages", &request_of(&[("user", SECRET_PROMPT)])).expect(200);
    let exported = attributes(&collector.spans(1)[0].attributes);
    assert_eq!(exported["gen_ai.prompt.0.content"], SECRET_PROMPT);
}

#[test]
fn a_collector_that_fails_gets_every_span_once_it_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let unavailable = Scripted::Fail(StatusCode::SERVICE_UNAVAILABLE);
    let collector = Collector::start([unavailable, Scripted::Fail(StatusCode::TOO_MANY_REQUESTS), unavailable]);
    let server = serve(directory.path(), &exporting_to(&collector.url), &[]);
    let call = || text(&server.post("/v1/chat/completions", &request_of(&[("user", SECRET_PROMPT)])).expect(200)["id"]);
    let mut ids: Vec<String> = (0..3).map(|_| call()).collect();
    let spans = collector.spans(3);
    let mut got: Vec<String> =
        spans.iter().map(|span| text(&attributes(&span.attributes)["gen_ai.response.id"])).collect();
    ids.sort();
    got.sort();
    assert_eq!(got, ids);
    eventually("the count", || (sent(&server) == 3.0).then_some(()));
    assert_eq!(log(directory.path()).matches("takes no spans").count(), 1);
}

#[test]
fn what_a_collector_refuses_is_dropped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start([Scripted::Fail(StatusCode::BAD_REQUEST)]);
    let server = serve(directory.path(), &exporting_to(&collector.url), &[]);
    let call = || server.post("/v1/chat/completions", &request_of(&[("user", SECRET_PROMPT)])).expect(200);
    call();
    eventually("the refusal", || (dropped(&server, "rejected") == 1.0).then_some(()));
    call();
    assert_eq!(collector.spans(1).len(), 1);
}

#[test]
fn a_collector_that_hangs_holds_up_no_call_and_what_finds_no_room_is_counted() {
    const CALLS: usize = 30;
    const ANSWERS: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start([Scripted::Hang]);
    let server = serve(directory.path(), &exporting_to(&collector.url), &[]);
    let many = json!({ "model": "tiny", "prompt": "Say", "max_tokens": 1, "n": ANSWERS });
    for _ in 0..CALLS {
        server.post("/v1/completions", &many).expect(200);
    }
    // 2048 may wait, and 512 are on their way.
    assert!(dropped(&server, "queue_full") >= (CALLS * ANSWERS - 2048 - 512) as f64);
    assert_eq!(log(directory.path()).matches("find no room").count(), 1);
}

#[test]
fn a_server_stops_though_no_collector_is_there_and_sends_the_last_spans_if_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let call =
        |server: &Server| server.post("/v1/chat/completions", &request_of(&[("user", SECRET_PROMPT)])).expect(200);
    let mut server = serve(directory.path(), &exporting_to("http://127.0.0.1:1"), &[]);
    call(&server);
    assert_eq!(server.process.terminate(), Some(0));
    let log = log(directory.path());
    assert!(log.contains("did not take the last 1 spans"), "{log}");

    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::start([Scripted::Fail(StatusCode::SERVICE_UNAVAILABLE)]);
    let mut server = serve(directory.path(), &exporting_to(&collector.url), &[]);
    call(&server);
    assert_eq!(server.process.terminate(), Some(0));
    assert_eq!(collector.spans(1).len(), 1);
}
