use std::io::Write;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_types::{AttemptStatus, SpanFilter};
use http_body_util::BodyExt;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as OptionalValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::served::Api;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

fn pair(key: &str, value: &str) -> KeyValue {
    let value = OptionalValue { value: Some(AnyValue::StringValue(value.into())) };
    KeyValue { key: key.into(), value: Some(value), ..KeyValue::default() }
}

pub(crate) fn export(spans: &[(u8, &str, &str)]) -> ExportTraceServiceRequest {
    let spans = spans.iter().map(|(number, rollout_id, attempt_id)| Span {
        trace_id: vec![1; 16],
        span_id: vec![*number; 8],
        name: format!("span {number}"),
        attributes: vec![pair("agentlightning.rollout_id", rollout_id), pair("agentlightning.attempt_id", attempt_id)],
        ..Span::default()
    });
    let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// HTTP's `deflate`.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct TraceAnswer {
    status: StatusCode,
    content_type: String,
    body: Vec<u8>,
}

async fn post(api: &Api, headers: &[(&str, &str)], body: impl Into<Body>) -> TraceAnswer {
    let mut request = Request::builder().method("POST").uri("/v1/traces");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = api.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    TraceAnswer {
        status: response.status(),
        content_type: response.headers()["content-type"].to_str().unwrap().to_owned(),
        body: response.into_body().collect().await.unwrap().to_bytes().to_vec(),
    }
}

pub(crate) async fn names(api: &Api, rollout_id: &str) -> Vec<(String, u64)> {
    let filter = SpanFilter { rollout_id: rollout_id.into(), ..SpanFilter::default() };
    let spans = api.store.spans().query(&filter).await.unwrap().items;
    spans.into_iter().map(|span| (span.name, span.sequence_id)).collect()
}

#[tokio::test]
async fn spans_are_stored_whichever_way_they_are_written() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let plain = export(&[(1, rollout_id, attempt_id), (2, rollout_id, attempt_id)]).encode_to_vec();
    let more = export(&[(2, rollout_id, attempt_id), (3, rollout_id, attempt_id)]);
    let deflated = export(&[(4, rollout_id, attempt_id)]);
    for (headers, body) in [
        (&[("content-type", PROTOBUF)][..], plain),
        (
            &[("content-type", "application/x-protobuf; charset=utf-8"), ("content-encoding", "gzip")],
            gzip(&more.encode_to_vec()),
        ),
        (&[("content-type", PROTOBUF), ("content-encoding", "Deflate")], zlib(&deflated.encode_to_vec())),
    ] {
        let answer = post(&api, headers, body).await;
        assert_eq!((answer.status, answer.content_type.as_str(), answer.body.len()), (StatusCode::OK, PROTOBUF, 0));
    }
    let last = serde_json::to_vec(&export(&[(5, rollout_id, attempt_id)])).unwrap();
    let answer = post(&api, &[("content-type", JSON)], last).await;
    assert_eq!(
        (answer.status, answer.content_type.as_str(), answer.body.as_slice()),
        (StatusCode::OK, JSON, &b"{}"[..])
    );
    let expected = [1, 2, 3, 4, 5].map(|number| format!("span {number}"));
    let found = names(&api, rollout_id).await;
    assert_eq!(found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
    assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1), "{found:?}");
    let attempt = api.store.attempts().get(rollout_id, "latest").await.unwrap().unwrap();
    assert_eq!(attempt.status, AttemptStatus::Running);
    assert!(attempt.last_heartbeat_time.is_some());
}

#[tokio::test]
async fn spans_of_nobody_are_counted_and_the_others_stored() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let mixed = export(&[(1, "ro-no", "at-no"), (2, rollout_id, attempt_id), (3, rollout_id, "at-no")]);
    let answer = post(&api, &[("content-type", PROTOBUF)], mixed.encode_to_vec()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let partial = ExportTraceServiceResponse::decode(answer.body.as_slice()).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 2);
    assert_eq!(partial.error_message, "span 0101010101010101: there is no attempt at-no of a rollout ro-no");
    assert_eq!(names(&api, rollout_id).await, [("span 2".to_owned(), 1)]);

    let nobody = export(&[(1, "", "at-no")]);
    let answer = post(&api, &[("content-type", JSON)], serde_json::to_vec(&nobody).unwrap()).await;
    let reply: Value = serde_json::from_slice(&answer.body).unwrap();
    let reason = "span 0101010101010101: neither the span nor its resource has agentlightning.rollout_id";
    assert_eq!(reply, json!({"partialSuccess": {"rejectedSpans": "1", "errorMessage": reason}}));
}

#[tokio::test]
async fn a_log_record_that_names_no_attempt_belongs_to_the_one_that_has_its_trace() {
    let api = Api::new().await;
    let (attempted, other) = (api.store.start().await, api.store.start().await);
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let of_trace = |trace: u8, number: u8, rollout_id: &str, attempt_id: &str| {
        let mut request = export(&[(number, rollout_id, attempt_id)]);
        request.resource_spans[0].scope_spans[0].spans[0].trace_id = vec![trace; 16];
        request.encode_to_vec()
    };
    let (other_rollout, other_attempt) = (other.rollout.rollout_id.as_str(), other.attempt.attempt_id.as_str());
    // Trace 8 is of two attempts.
    for body in [
        of_trace(7, 1, rollout_id, attempt_id),
        of_trace(8, 2, rollout_id, attempt_id),
        of_trace(8, 3, other_rollout, other_attempt),
    ] {
        assert_eq!(post(&api, &[("content-type", PROTOBUF)], body).await.status, StatusCode::OK);
    }
    let record = |trace: &str| {
        json!({"traceId": trace.repeat(16), "spanId": "01".repeat(8), "timeUnixNano": "5",
            "eventName": "gen_ai.client.inference.operation.details", "attributes": []})
    };
    let records = json!([record("07"), record("08"), record("09")]);
    let body = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let request = Request::builder().method("POST").uri("/v1/logs").header("content-type", JSON);
    let response = api.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let reply: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let reason = format!(
        "log record of trace {}: neither it nor its resource has agentlightning.rollout_id, and its trace is not of one \
         attempt that is known",
        "08".repeat(16)
    );
    assert_eq!(reply, json!({"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": reason}}));
    let found: Vec<String> = names(&api, rollout_id).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["span 1", "span 2", "gen_ai.client.inference.operation.details"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_in_its_own_encoding() {
    let store = Api::new().await.store;
    let limited = Serving { body_limit: 1000, ..Serving::default() };
    let api = Api { router: fulgurite_api::routes(store.store.clone(), &limited, &mut RouteNeeds::default()), store };
    let zeros = gzip(&vec![0; 100_000]);
    let deflated_zeros = zlib(&vec![0; 100_000]);
    assert!(zeros.len() < 1000 && deflated_zeros.len() < 1000);
    let protobuf = ("content-type", PROTOBUF);
    for (headers, body, status, expected) in [
        (
            &[("content-type", "text/plain; charset=utf-8")][..],
            b"{}".to_vec(),
            400,
            "Unsupported Content-Type 'text/plain', expected 'application/x-protobuf' or 'application/json'",
        ),
        (&[], Vec::new(), 400, "Unsupported Content-Type '', expected"),
        (&[protobuf], b"\xff".to_vec(), 400, "body: is not an ExportTraceServiceRequest: "),
        (&[protobuf, ("content-encoding", "gzip")], b"x".to_vec(), 400, "the body is not gzip: "),
        (
            &[protobuf, ("content-encoding", "br")],
            Vec::new(),
            400,
            "Unsupported Content-Encoding 'br', expected 'gzip', 'deflate' or 'identity'",
        ),
        (&[protobuf, ("content-encoding", "deflate")], b"x".to_vec(), 400, "the body is not deflate (zlib): "),
        (&[protobuf, ("content-encoding", "deflate")], deflated_zeros, 413, "The request body is too large"),
        (&[protobuf, ("content-encoding", "gzip")], zeros, 413, "The request body is too large"),
        (&[protobuf], vec![0; 1001], 413, "The request body is too large"),
    ] {
        let answer = post(&api, headers, body).await;
        assert_eq!((answer.status.as_u16(), answer.content_type.as_str()), (status, PROTOBUF), "{expected}");
        let message = RpcStatus::decode(answer.body.as_slice()).unwrap().message;
        assert!(message.starts_with(expected), "{message}");
    }
    let answer = post(&api, &[("content-type", JSON)], "{").await;
    assert_eq!((answer.status.as_u16(), answer.content_type.as_str()), (400, JSON));
    let reply: Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(reply["message"].as_str().unwrap().starts_with("body: is not an ExportTraceServiceRequest: "), "{reply}");
    assert_eq!(api.store.queries().statistics().await.unwrap().spans, 0);
}

#[tokio::test]
async fn other_signals_are_not_taken() {
    let api = Api::new().await;
    for path in ["/v1/metrics", "/v1/development/profiles"] {
        let request = Request::builder().method("POST").uri(path).body(Body::empty()).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_IMPLEMENTED, "{path}");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "{path}");
    }
}
