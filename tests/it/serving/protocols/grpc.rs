//! OpenTelemetry's spans over gRPC: OpenTelemetry's own exporter for Python, and calls that no library makes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use axum::body::{Body, Bytes};
use serde_json::{Value, json};

use super::http2::{Connection, Reply, address};
use crate::common::{Ran, Server, text};

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A server with an attempt that has been handed out: its rollout and its own id.
fn serve(directory: &Path, config: &str) -> Server {
    let file = directory.join("config.toml");
    std::fs::write(&file, config).unwrap();
    Server::start(directory, ["--config", file.to_str().unwrap()])
}

/// What a script says that plays OpenTelemetry's SDK.
fn play(server: &Server, arguments: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/agentlightning/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    let mut command = Command::new(python);
    command.arg(root.join("tests/agentlightning/spans_over_grpc.py")).arg(&server.url).args(arguments);
    let ran = Ran::from(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
}

/// The code and text of a call that failed.
fn failure(reply: &Reply) -> (u8, String) {
    let trailer =
        |name: &str| reply.head.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", reply.head)).to_str().unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.len(), &reply.trailers), (200, 0, &None));
    (trailer("grpc-status").parse().unwrap(), trailer("grpc-message").to_owned())
}

/// What never ends after these bytes.
fn endless(begin: &'static [u8]) -> Body {
    let begin = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(begin))]);
    Body::from_stream(futures::StreamExt::chain(begin, futures::stream::pending()))
}

#[test]
fn their_exporter_sends_spans_plain_and_compressed_that_the_store_has() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "");
    let rollout = server.enqueue([json!(1)], &json!({})).remove(0);
    let dequeued = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    let attempt = text(&dequeued[0]["attempt"]["attempt_id"]);
    let exported = play(&server, &[&rollout, &attempt]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&exported).unwrap(), @r#"
    {
      "plain": "SUCCESS",
      "gzip": "SUCCESS",
      "large": "SUCCESS",
      "deflate": "SUCCESS",
      "of nobody": [
        1,
        "span 0000000000000007: neither the span nor its resource has agentlightning.rollout_id"
      ],
      "metrics": [
        "UNIMPLEMENTED",
        "only spans and log records are taken here; OTEL_METRICS_EXPORTER=none keeps an SDK from sending metrics"
      ],
      "unknown": [
        "UNIMPLEMENTED",
        "there is no method /some.Service/Method; there are /opentelemetry.proto.collector.trace.v1.TraceService/Export and /opentelemetry.proto.collector.logs.v1.LogsService/Export"
      ],
      "rubbish": [
        "INVALID_ARGUMENT",
        true
      ]
    }
    "#);
    let spans = server.query("spans");
    let mut names: Vec<String> = spans.iter().map(|span| text(&span["name"])).collect();
    names.sort();
    assert_eq!(names, ["deflate", "gzip", "large", "plain"]);
    for span in &spans {
        assert_eq!(
            (text(&span["rollout_id"]), text(&span["attempt_id"])),
            (rollout.clone(), attempt.clone()),
            "{span}"
        );
    }
    let large = spans.iter().find(|span| span["name"] == "large").unwrap();
    assert_eq!(text(&large["attributes"]["text"]).len(), 1 << 20);
}

#[test]
fn keys_are_asked_for_as_over_http() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("admin.key"), "the-key-to-everything").unwrap();
    let server = serve(directory.path(), "[server]\nadmin_key_file = \"admin.key\"\n");
    let mut connection = Connection::open(&server);
    let mut call = |path: &str, key: Option<&str>| {
        let bearer = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = [GRPC].into_iter().chain(bearer.as_deref().map(|key| ("authorization", key))).collect();
        connection.send("POST", path, &headers, vec![0; 5])
    };
    for path in [EXPORT, "/some.Service/Method"] {
        for key in [None, Some("wrong")] {
            let (code, message) = failure(&call(path, key));
            assert!(code == 16 && !message.is_empty(), "{path} {key:?}: {code} {message}");
        }
    }
    let reply = call(EXPORT, Some("the-key-to-everything"));
    assert_eq!(reply.trailers.unwrap()["grpc-status"], "0");
    assert_eq!(failure(&call("/some.Service/Method", Some("the-key-to-everything"))).0, 12);
}

#[test]
fn what_no_library_sends_is_refused_and_the_connection_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "[server]\nbody_seconds = 0.5\nbody_limit_bytes = 2000000\n");
    let mut connection = Connection::open(&server);
    let mut call = |body: Body| connection.send("POST", EXPORT, &[GRPC], body);
    let too_large = (8, "The request body is too large".to_owned());
    assert_eq!(failure(&call(endless(&[0, 255, 255, 255, 255]))), too_large);
    assert_eq!(failure(&call(endless(&[0, 0, 30, 132, 129]))), too_large, "2000001 bytes");
    let (code, message) = failure(&call(endless(&[9, 0, 0, 0, 0])));
    assert_eq!((code, message.as_str()), (3, "the message's compressed flag is 9, but must be 0 or 1"));
    let (code, message) = failure(&call(vec![0, 0, 0, 0, 9, 1].into()));
    assert_eq!((code, message.as_str()), (3, "the message ends after 1 of its 9 bytes"));
    let (code, message) = failure(&call(endless(&[0, 0, 0, 0, 9, 1])));
    assert_eq!(
        (code, message.as_str()),
        (4, "the request body did not arrive within 0.5 seconds (server.body_seconds)")
    );
    let reply = call(vec![0; 5].into());
    assert_eq!((&reply.body[..], &reply.trailers.unwrap()["grpc-status"]), (&[0; 5][..], &"0".parse().unwrap()));
    assert_eq!(server.query("spans").len(), 0);
}

#[test]
fn a_call_by_http_1_is_told_what_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "");
    let mut stream = TcpStream::connect(address(&server)).unwrap();
    let head =
        format!("POST {EXPORT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\nconnection: close\r\n");
    stream.write_all(format!("{head}content-length: 5\r\n\r\n\0\0\0\0\0").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
    let message = "gRPC is served over HTTP/2 with prior knowledge and Content-Type application/grpc, but the request came by \
                   HTTP/1.1; OTLP over HTTP is served at /v1/traces";
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({ "message": message }));
}
