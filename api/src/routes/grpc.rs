//! OpenTelemetry's trace export over gRPC: `TraceService/Export`, for what `/v1/traces` takes over HTTP.
//!
//! A call of gRPC is a POST of HTTP/2 whose body is one message behind its length; how it went is told behind the answer, in
//! `grpc-status` and `grpc-message` (gRPC's PROTOCOL-HTTP2).

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use fulgurite_store::Store;
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

use super::traces::{Compression, Encoding, Failure, Sent, content_type, ingest, partial_success};
use crate::conventions::input::sender;
use crate::conventions::refused::{BodyTooSlow, Refused};
use crate::conventions::turns::Queue;
use crate::otlp::{Rejected, Signal};

/// Where spans are taken.
pub(super) const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Where log records are taken.
pub(super) const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// OpenTelemetry's other signals, which are not taken.
pub(super) const OTHER_SIGNALS: [&str; 2] = [
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
];

const CONTENT_TYPE: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Bytes of an error's text as it is sent, which is a header to clients.
const LONGEST_MESSAGE: usize = 4096;

/// `OK` of gRPC's codes; the others stand in [`code`].
const OK: u8 = 0;

/// gRPC's code for what HTTP says by a status. Exporters send again at 4 and 14 alone.
fn code(status: StatusCode) -> u8 {
    match status.as_u16() {
        400 | 415 | 422 => 3, // INVALID_ARGUMENT
        408 => 4,             // DEADLINE_EXCEEDED
        404 => 5,             // NOT_FOUND
        403 => 7,             // PERMISSION_DENIED
        413 | 507 => 8,       // RESOURCE_EXHAUSTED
        409 => 9,             // FAILED_PRECONDITION
        405 | 501 => 12,      // UNIMPLEMENTED
        500 => 13,            // INTERNAL
        // RESOURCE_EXHAUSTED would tell an exporter of too many requests to give its spans up.
        429 | 502..=504 => 14, // UNAVAILABLE
        401 => 16,             // UNAUTHENTICATED
        _ => 2,                // UNKNOWN
    }
}

/// Whether a request is a call of gRPC, whose errors are told in its own way.
pub fn is_grpc(version: Version, headers: &HeaderMap) -> bool {
    let kind = content_type(headers).to_ascii_lowercase();
    let rest = kind.strip_prefix(CONTENT_TYPE);
    version == Version::HTTP_2 && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

/// The answer to a call of a service or method that there is not.
pub fn unknown_method(path: &str) -> Response {
    let message = format!("there is no method {path}; there are {TRACES} and {LOGS}");
    failed(Failure { status: StatusCode::NOT_IMPLEMENTED, message })
}

/// The answer to a call that is not let in.
pub(super) fn refusal(refused: &Refused) -> Response {
    failed(Failure { status: refused.status(), message: refused.to_string() })
}

/// OpenTelemetry's other signals.
pub(super) async fn unsupported(request: Request) -> Response {
    let message =
        "only spans and log records are taken here; OTEL_METRICS_EXPORTER=none keeps an SDK from sending metrics";
    let refused = Failure { status: StatusCode::NOT_IMPLEMENTED, message: message.to_owned() };
    not_grpc(&request).unwrap_or_else(|| failed(refused))
}

/// Stores an export as `/v1/traces` and `/v1/logs` do.
pub(super) async fn export(signal: Signal, store: Store, request: Request, body_limit: usize) -> Response {
    if let Some(refused) = not_grpc(&request) {
        return refused;
    }
    match stored(signal, &store, request, body_limit).await {
        Ok(rejected) => success(rejected),
        Err(failure) => failed(failure),
    }
}

/// The answer to a request that is no call of gRPC, in the way of OTLP over HTTP.
fn not_grpc(request: &Request) -> Option<Response> {
    let (version, headers) = (request.version(), request.headers());
    if is_grpc(version, headers) {
        return None;
    }
    let (status, wrong) = match version {
        Version::HTTP_2 => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("the Content-Type is '{}'", content_type(headers)))
        }
        _ => (StatusCode::BAD_REQUEST, format!("the request came by {version:?}")),
    };
    let message = format!(
        "gRPC is served over HTTP/2 with prior knowledge and Content-Type {CONTENT_TYPE}, but {wrong}; OTLP over HTTP is \
         served at /v1/traces"
    );
    Some(Failure { status, message }.response(Some(Encoding::Json)))
}

async fn stored(signal: Signal, store: &Store, request: Request, body_limit: usize) -> Result<Rejected, Failure> {
    let kind = content_type(request.headers()).to_ascii_lowercase();
    if !matches!(kind.strip_prefix(CONTENT_TYPE), Some("" | "+proto")) {
        let message = format!("Unsupported Content-Type '{kind}', expected '{CONTENT_TYPE}' or '{CONTENT_TYPE}+proto'");
        return Err(Failure { status: StatusCode::NOT_IMPLEMENTED, message });
    }
    let named = Compression::of(request.headers(), "grpc-encoding");
    let (sender, queue) = (sender(request.extensions()), Queue::of(request.extensions()));
    let (is_compressed, bytes) = message(request.into_body(), body_limit).await?;
    let compression = match is_compressed {
        false => None,
        true => {
            let named = named.map_err(|failure| Failure { status: StatusCode::NOT_IMPLEMENTED, ..failure })?;
            let named = named.ok_or_else(|| {
                Failure::bad_request("the message is marked as compressed, and no grpc-encoding says how")
            });
            Some(named?)
        }
    };
    ingest(store, sender, queue, Sent { signal, bytes, encoding: Encoding::Protobuf, compression }, body_limit).await
}

/// The message of a call that sends one, and whether it is compressed. Nothing more is read of one that is too large or not
/// marked as it should be.
async fn message(body: Body, limit: usize) -> Result<(bool, Bytes), Failure> {
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut head = None;
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| match BodyTooSlow::cause_of(&error) {
            Some(slow) => Failure::too_slow(slow),
            None => Failure::bad_request(format!("the message broke off: {error}")),
        })?;
        bytes.extend_from_slice(&part);
        if head.is_none() {
            head = prefix(&bytes, limit)?;
        }
        if head.is_some_and(|(_, length)| bytes.len() > PREFIX + length) {
            return Err(Failure::bad_request("more bytes follow the message; a call sends one message alone"));
        }
    }
    let came = bytes.len().saturating_sub(PREFIX);
    match head {
        Some((is_compressed, length)) if came == length => Ok((is_compressed, Bytes::from(bytes).slice(PREFIX..))),
        Some((_, length)) => Err(Failure::bad_request(format!("the message ends after {came} of its {length} bytes"))),
        None => {
            let came = bytes.len();
            Err(Failure::bad_request(format!("there is no message: {PREFIX} bytes begin one, and {came} came")))
        }
    }
}

/// Whether a message is compressed, and its length, once as many bytes have come as say so.
fn prefix(bytes: &[u8], limit: usize) -> Result<Option<(bool, usize)>, Failure> {
    let Some((&[flag, a, b, c, d], _)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let is_compressed = match flag {
        0 => false,
        1 => true,
        flag => {
            return Err(Failure::bad_request(format!("the message's compressed flag is {flag}, but must be 0 or 1")));
        }
    };
    match usize::try_from(u32::from_be_bytes([a, b, c, d])) {
        Ok(length) if length <= limit => Ok(Some((is_compressed, length))),
        _ => Err(Failure::too_large()),
    }
}

fn success(rejected: Rejected) -> Response {
    let message = ExportTraceServiceResponse { partial_success: partial_success(rejected) }.encode_to_vec();
    // It holds one text, which is shorter than 4 GiB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let framed = [&[0][..], &length, &message].concat();
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from(u16::from(OK)))]);
    let body = Full::new(Bytes::from(framed)).with_trailers(std::future::ready(Some(Ok(trailers))));
    (headers(), Body::new(body)).into_response()
}

/// The answer to a call that failed, which is its status alone.
fn failed(failure: Failure) -> Response {
    let Failure { status, message } = failure;
    let status = (STATUS, HeaderValue::from(u16::from(code(status))));
    // What it is made of are bytes that a header may hold.
    let message = (MESSAGE, HeaderValue::try_from(encoded(&message)).unwrap_or(HeaderValue::from_static("")));
    (headers(), [status, message]).into_response()
}

fn headers() -> [(HeaderName, HeaderValue); 2] {
    let accepted = HeaderValue::from_static("identity,gzip,deflate");
    [(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE)), (ACCEPT_ENCODING, accepted)]
}

/// An error's text as `grpc-message` holds it: percent signs before what is not printable ASCII.
fn encoded(text: &str) -> String {
    let mut message = String::new();
    for character in text.chars() {
        let before = message.len();
        match character {
            '%' => message.push_str("%25"),
            ' '..='~' => message.push(character),
            _ => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    message.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        if message.len() > LONGEST_MESSAGE {
            message.truncate(before);
            break;
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_text_that_a_header_holds() {
        assert_eq!(encoded("50 % of\n\u{fc}"), "50 %25 of%0A%C3%BC");
        assert_eq!(encoded(&"\u{fc}".repeat(LONGEST_MESSAGE)).len(), LONGEST_MESSAGE / 6 * 6);
    }

    #[test]
    fn a_prefix_is_read_once_it_is_there() {
        let read = |bytes: &[u8]| prefix(bytes, 1000).map_err(|failure| code(failure.status));
        assert_eq!(read(&[2, 0, 0, 3]), Ok(None));
        assert_eq!(read(&[0, 0, 0, 3, 232]), Ok(Some((false, 1000))));
        assert_eq!(read(&[1, 0, 0, 0, 0, 9]), Ok(Some((true, 0))));
        assert_eq!(read(&[0, 0, 0, 3, 233]), Err(8));
        assert_eq!(read(&[0, 255, 255, 255, 255]), Err(8));
        assert_eq!(read(&[2, 0, 0, 0, 0]), Err(3));
    }
}
