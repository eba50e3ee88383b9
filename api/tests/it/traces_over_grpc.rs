//! Spans over gRPC: calls as HTTP/2 brings them, without its connections.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode, Version};
use fulgurite_api::{RouteNeeds, Serving};
use http_body_util::BodyExt;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::served::Api;
use crate::traces::{export, gzip, names};

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const GRPC: (&str, &str) = ("content-type", "application/grpc");
const GZIP: (&str, &str) = ("grpc-encoding", "gzip");

/// A message behind its length.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

struct GrpcAnswer {
    status: StatusCode,
    head: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl GrpcAnswer {
    /// The code and text of a call that failed: nothing but its head is sent.
    fn failure(&self) -> (u8, &str) {
        assert_eq!((self.status, self.body.len(), &self.trailers), (StatusCode::OK, 0, &None));
        assert_eq!(self.head["content-type"], "application/grpc");
        assert_eq!(self.head["grpc-accept-encoding"], "identity,gzip,deflate");
        let text = |name: &str| self.head[name].to_str().unwrap();
        (text("grpc-status").parse().unwrap(), text("grpc-message"))
    }

    /// What a call that did not fail returned.
    fn message(&self) -> ExportTraceServiceResponse {
        assert_eq!((self.status, &self.head["content-type"]), (StatusCode::OK, &"application/grpc".parse().unwrap()));
        assert_eq!(self.trailers.as_ref().unwrap()["grpc-status"], "0");
        let message = &self.body[5..];
        assert_eq!(self.body, framed(0, message));
        ExportTraceServiceResponse::decode(message).unwrap()
    }
}

async fn call(api: &Api, version: Version, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> GrpcAnswer {
    let mut request = Request::builder().method("POST").version(version).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = api.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    GrpcAnswer { status: parts.status, head: parts.headers, body: body.to_bytes(), trailers }
}

async fn exported(api: &Api, headers: &[(&str, &str)], body: impl Into<Body>) -> GrpcAnswer {
    call(api, Version::HTTP_2, EXPORT, headers, body).await
}

/// A body in several pieces.
fn pieces(bytes: &[u8], size: usize) -> Body {
    let pieces: Vec<_> = bytes.chunks(size).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    Body::from_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn spans_are_stored_as_over_http_whole_and_in_pieces_and_compressed() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let message = |number| export(&[(number, rollout_id, attempt_id)]).encode_to_vec();
    for (headers, body) in [
        (&[GRPC][..], Body::from(framed(0, &message(1)))),
        (&[("content-type", "application/grpc+proto")], pieces(&framed(0, &message(2)), 3)),
        (&[GRPC, GZIP], framed(1, &gzip(&message(3))).into()),
        // What says how a message would be compressed does not say that it is.
        (&[GRPC, GZIP], framed(0, &message(4)).into()),
        (&[GRPC, ("grpc-encoding", "br")], framed(0, &message(5)).into()),
        // No spans are an export too.
        (&[GRPC], framed(0, &[]).into()),
    ] {
        let answer = exported(&api, headers, body).await;
        assert_eq!(answer.message(), ExportTraceServiceResponse::default(), "{headers:?}");
    }
    let found: Vec<String> = names(&api, rollout_id).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, [1, 2, 3, 4, 5].map(|number| format!("span {number}")));
}

#[tokio::test]
async fn spans_of_nobody_are_counted_and_the_others_stored() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let mixed = export(&[(1, "ro-no", "at-no"), (2, rollout_id, attempt_id)]).encode_to_vec();
    let partial = exported(&api, &[GRPC], framed(0, &mixed)).await.message().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert_eq!(partial.error_message, "span 0101010101010101: there is no attempt at-no of a rollout ro-no");
    assert_eq!(names(&api, rollout_id).await, [("span 2".to_owned(), 1)]);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_a_code_and_a_reason() {
    let store = Api::new().await.store;
    let limited = Serving { body_limit: 1000, ..Serving::default() };
    let api = Api { router: fulgurite_api::routes(store.store.clone(), &limited, &mut RouteNeeds::default()), store };
    let zeros = gzip(&vec![0; 100_000]);
    assert!(zeros.len() < 1000);
    // A client that goes on sending is not heard out: what never ends is refused at its first bytes.
    let endless = |begin: &[u8]| {
        let begin = futures::stream::iter([Ok::<_, std::io::Error>(begin.to_vec())]);
        Body::from_stream(futures::StreamExt::chain(begin, futures::stream::pending()))
    };
    let too_large = "The request body is too large";
    for (headers, body, code, expected) in [
        (&[GRPC][..], endless(&[0, 255, 255, 255, 255]), 8, too_large),
        (&[GRPC], endless(&[0, 0, 0, 3, 233]), 8, too_large),
        (&[GRPC, GZIP], framed(1, &zeros).into(), 8, too_large),
        (&[GRPC], endless(&[7, 0, 0, 0, 1]), 3, "the message's compressed flag is 7, but must be 0 or 1"),
        (&[GRPC], framed(1, &[]).into(), 3, "the message is marked as compressed, and no grpc-encoding says how"),
        (&[GRPC, ("grpc-encoding", "identity")], framed(1, &[]).into(), 3, "the message is marked as compressed, and"),
        (
            &[GRPC, ("grpc-encoding", "br")],
            framed(1, &[]).into(),
            12,
            "Unsupported grpc-encoding 'br', expected 'gzip'",
        ),
        (&[GRPC, GZIP], framed(1, b"x").into(), 3, "the body is not gzip: "),
        (&[GRPC], Body::empty(), 3, "there is no message: 5 bytes begin one, and 0 came"),
        (&[GRPC], vec![0, 0, 0].into(), 3, "there is no message: 5 bytes begin one, and 3 came"),
        (&[GRPC], vec![0, 0, 0, 0, 9, 1].into(), 3, "the message ends after 1 of its 9 bytes"),
        (&[GRPC], endless(&framed(0, &[]).repeat(2)), 3, "more bytes follow the message; a call sends one message"),
        (&[GRPC], framed(0, b"\xff").into(), 3, "body: is not an ExportTraceServiceRequest: "),
        (
            &[("content-type", "application/grpc+json")],
            framed(0, b"{}").into(),
            12,
            "Unsupported Content-Type 'application/grpc+json', expected 'application/grpc' or",
        ),
    ] {
        let answer = exported(&api, headers, body).await;
        let (found, message) = answer.failure();
        assert!(found == code && message.starts_with(expected), "{found} {message}, not {code} {expected}");
    }
    assert_eq!(api.store.queries().statistics().await.unwrap().spans, 0);
}

#[tokio::test]
async fn a_request_that_is_no_call_of_grpc_is_told_how_to_make_one() {
    let api = Api::new().await;
    let status_and_body = |answer: &GrpcAnswer| {
        let status_and_body: Value = serde_json::from_slice(&answer.body).unwrap();
        (answer.status.as_u16(), status_and_body)
    };
    let message = |wrong: &str| {
        json!({ "message": format!(
            "gRPC is served over HTTP/2 with prior knowledge and Content-Type application/grpc, but {wrong}; OTLP over HTTP \
             is served at /v1/traces"
        ) })
    };
    let metrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    for path in [EXPORT, metrics] {
        let answer = call(&api, Version::HTTP_11, path, &[GRPC], framed(0, &[])).await;
        assert_eq!(status_and_body(&answer), (400, message("the request came by HTTP/1.1")));
        for kind in ["application/x-protobuf", "application/grpc-web"] {
            let answer = call(&api, Version::HTTP_2, path, &[("content-type", kind)], framed(0, &[])).await;
            assert_eq!(status_and_body(&answer), (415, message(&format!("the Content-Type is '{kind}'"))));
        }
    }
    assert_eq!(api.store.queries().statistics().await.unwrap().spans, 0);
}

#[tokio::test]
async fn events_with_messages_are_taken() {
    let api = Api::new().await;
    let path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    let empty = call(&api, Version::HTTP_2, path, &[GRPC], framed(0, &[])).await;
    assert_eq!(empty.message(), ExportTraceServiceResponse::default());
    // One record of one scope of one resource: its event's name alone.
    let record = [&[98, 1][..], b"x"].concat();
    let wrap = |tag: u8, bytes: Vec<u8>| [&[tag, bytes.len() as u8][..], &bytes].concat();
    let batch = wrap(10, wrap(18, wrap(18, record)));
    let partial =
        call(&api, Version::HTTP_2, path, &[GRPC], framed(0, &batch)).await.message().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.starts_with("log record number 1 of its resource: only events"));
}

#[tokio::test]
async fn other_signals_are_not_taken() {
    let api = Api::new().await;
    for service in ["metrics.v1.MetricsService", "profiles.v1development.ProfilesService"] {
        let path = format!("/opentelemetry.proto.collector.{service}/Export");
        let answer = call(&api, Version::HTTP_2, &path, &[GRPC], framed(0, &[])).await;
        let (code, message) = answer.failure();
        assert!(
            code == 12 && message.starts_with("only spans and log records are taken here; OTEL_METRICS_EXPORTER=none"),
            "{message}"
        );
    }
}
