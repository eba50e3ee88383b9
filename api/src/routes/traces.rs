//! OpenTelemetry's export over HTTP: `POST /v1/traces`, and `POST /v1/logs` for the messages of model calls.

use std::collections::BTreeSet;
use std::io::Read;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use fulgurite_store::{Sender, Store, StoreError};
use fulgurite_types::{IncomingSpan, Ingested, Span};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use prost::Message;
use serde_json::json;

use crate::conventions::error::{RestError, TOO_LARGE};
use crate::conventions::input::sender;
use crate::conventions::refused::{BodyTooSlow, Refused};
use crate::conventions::replaced::mended;
use crate::conventions::turns::{Queue, SMALL, TurnsFull};
use crate::otlp::{Export, Rejected, Signal, from_json, from_protobuf};

/// How a client writes its messages, and reads ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// `None` if the content type is another one. Its parameters do not matter.
    fn of(headers: &HeaderMap) -> Option<Self> {
        match content_type(headers).to_ascii_lowercase().as_str() {
            "application/x-protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compression {
    Gzip,
    /// HTTP's `deflate`, which is zlib's format (RFC 9110, 8.4.1.2).
    Deflate,
}

impl Compression {
    /// As the header of this name says; `None` if the body is as it is.
    pub(super) fn of(headers: &HeaderMap, name: &str) -> Result<Option<Self>, Failure> {
        match header_text(headers, name).to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            other => Err(Failure::bad_request(format!(
                "Unsupported {name} '{other}', expected 'gzip', 'deflate' or 'identity'"
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate (zlib)",
        }
    }

    /// What compressed bytes hold.
    fn content(self, bytes: &[u8]) -> Box<dyn Read + '_> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Self::Deflate => Box::new(ZlibDecoder::new(bytes)),
        }
    }
}

/// `google.rpc.Status`, as OTLP reports failures. Clients do not read its code.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// Why an export was refused as a whole. Nothing has been stored.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn too_large() -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, message: TOO_LARGE.to_owned() }
    }

    pub(super) fn too_slow(slow: BodyTooSlow) -> Self {
        Self { status: StatusCode::REQUEST_TIMEOUT, message: slow.to_string() }
    }

    fn crowded(full: TurnsFull) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, message: full.to_string() }
    }

    pub(super) fn response(self, encoding: Option<Encoding>) -> Response {
        let Self { status, message } = self;
        match encoding {
            Some(Encoding::Json) => (status, Json(json!({ "message": message }))).into_response(),
            Some(Encoding::Protobuf) | None => protobuf(status, &RpcStatus { message }),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (status, message) = RestError::from(error).status_and_message();
        Self { status, message }
    }
}

/// The answer to an export that is not let in.
pub(super) fn refusal(headers: &HeaderMap, refused: &Refused) -> Response {
    Failure { status: refused.status(), message: refused.to_string() }.response(Encoding::of(headers))
}

/// Stores an export. Spans that name no attempt, or one that is not known, are counted and left out; the others are
/// stored all the same.
pub(super) async fn export(signal: Signal, store: Store, request: Request, body_limit: usize) -> Response {
    let encoding = Encoding::of(request.headers());
    match stored(signal, store, request, encoding, body_limit).await {
        Ok(rejected) => success(signal, encoding.unwrap_or(Encoding::Protobuf), rejected),
        Err(failure) => failure.response(encoding),
    }
}

async fn stored(
    signal: Signal,
    store: Store,
    request: Request,
    encoding: Option<Encoding>,
    body_limit: usize,
) -> Result<Rejected, Failure> {
    let Some(encoding) = encoding else {
        return Err(Failure::bad_request(format!(
            "Unsupported Content-Type '{}', expected 'application/x-protobuf' or 'application/json'",
            content_type(request.headers())
        )));
    };
    let compression = Compression::of(request.headers(), "Content-Encoding")?;
    let sender = sender(request.extensions());
    let queue = Queue::of(request.extensions());
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| {
        if let Some(slow) = BodyTooSlow::cause_of(&rejection) {
            return Failure::too_slow(slow);
        }
        let message = rejection.body_text();
        match rejection.into_response().status() {
            StatusCode::PAYLOAD_TOO_LARGE => Failure::too_large(),
            _ => Failure::bad_request(message),
        }
    })?;
    ingest(&store, sender, queue, Sent { signal, bytes, encoding, compression }, body_limit).await
}

/// An export as it was sent.
pub(super) struct Sent {
    pub(super) signal: Signal,
    pub(super) bytes: Bytes,
    pub(super) encoding: Encoding,
    pub(super) compression: Option<Compression>,
}

/// Stores what an export holds, whose content may have `body_limit` bytes, and says which of its spans were left out.
pub(super) async fn ingest(
    store: &Store,
    sender: Sender,
    queue: Queue,
    sent: Sent,
    body_limit: usize,
) -> Result<Rejected, Failure> {
    let Sent { signal, bytes, encoding, compression } = sent;
    let size = compression.map_or(bytes.len(), |compression| size_as_far_as_small(&bytes, compression));
    let turn = queue.turn(size).await.map_err(Failure::crowded)?;
    let export = turn.work(|| {
        let content = match compression {
            Some(compression) => inflate(&bytes, compression, body_limit)?,
            None => bytes,
        };
        match encoding {
            Encoding::Json => parse(signal, &mended(content), encoding),
            Encoding::Protobuf => parse(signal, &content, encoding),
        }
    })?;
    drop(turn);
    let Export { mut spans, unplaced, mut rejected } = export;
    place_by_trace(store, signal, unplaced, &mut spans, &mut rejected).await?;
    for fate in store.spans().ingest_of(sender, spans).await? {
        if let Ingested::UnknownAttempt(span) = fate {
            let Span { span_id, attempt_id, rollout_id, .. } = *span;
            rejected.add(|| {
                format!("{} {span_id}: there is no attempt {attempt_id} of a rollout {rollout_id}", signal.item())
            });
        }
    }
    Ok(rejected)
}

/// Adds log records that name no attempt to the attempt that has their trace; those of no such trace are left out.
async fn place_by_trace(
    store: &Store,
    signal: Signal,
    unplaced: Vec<IncomingSpan>,
    spans: &mut Vec<IncomingSpan>,
    rejected: &mut Rejected,
) -> Result<(), Failure> {
    let traces: BTreeSet<&str> = unplaced.iter().map(|incoming| incoming.span.trace_id.as_str()).collect();
    let traces: Vec<&str> = traces.into_iter().collect();
    let attempts = store.spans().attempts_of_traces(&traces).await?;
    for mut incoming in unplaced {
        let span = &mut incoming.span;
        match attempts.get(&span.trace_id) {
            Some(attempt) => {
                span.rollout_id.clone_from(&attempt.rollout_id);
                span.attempt_id.clone_from(&attempt.attempt_id);
                spans.push(incoming);
            }
            None => rejected.add(|| {
                format!(
                    "{} of trace {}: neither it nor its resource has agentlightning.rollout_id, and its trace is not of \
                     one attempt that is known",
                    signal.item(),
                    span.trace_id
                )
            }),
        }
    }
    Ok(())
}

fn parse(signal: Signal, bytes: &[u8], encoding: Encoding) -> Result<Export, Failure> {
    let export = match encoding {
        Encoding::Protobuf => from_protobuf(signal, bytes),
        Encoding::Json => from_json(signal, bytes),
    };
    export.map_err(|error| Failure::bad_request(error.to_string()))
}

/// Bytes of a compressed body or of its content, whichever are more, counted only as far as tells a small body from others.
fn size_as_far_as_small(bytes: &[u8], compression: Compression) -> usize {
    if bytes.len() > SMALL {
        return bytes.len();
    }
    let mut content = compression.content(bytes).take(SMALL as u64 + 1);
    // What is not compressed so is refused when it is read.
    std::io::copy(&mut content, &mut std::io::sink()).map_or(0, |size| size as usize)
}

/// The content of a compressed body, as far as a body may be long.
fn inflate(bytes: &[u8], compression: Compression, limit: usize) -> Result<Bytes, Failure> {
    let mut content = Vec::new();
    let limit_and_one = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    compression
        .content(bytes)
        .take(limit_and_one)
        .read_to_end(&mut content)
        .map_err(|error| Failure::bad_request(format!("the body is not {}: {error}", compression.name())))?;
    if content.len() > limit { Err(Failure::too_large()) } else { Ok(content.into()) }
}

/// What of an export was left out, if something was. The answer of both signals has the same fields.
pub(super) fn partial_success(rejected: Rejected) -> Option<ExportTracePartialSuccess> {
    let Rejected { count, first_reason } = rejected;
    first_reason.map(|reason| ExportTracePartialSuccess { rejected_spans: count, error_message: reason })
}

fn success(signal: Signal, encoding: Encoding, rejected: Rejected) -> Response {
    let partial_success = partial_success(rejected);
    match (encoding, partial_success) {
        (Encoding::Protobuf, partial_success) => {
            protobuf(StatusCode::OK, &ExportTraceServiceResponse { partial_success })
        }
        (Encoding::Json, None) => Json(json!({})).into_response(),
        // 64-bit integers are texts in protobuf's JSON.
        (Encoding::Json, Some(partial)) => Json(json!({"partialSuccess": {
            signal.rejected_key(): partial.rejected_spans.to_string(), "errorMessage": partial.error_message,
        }}))
        .into_response(),
    }
}

fn protobuf(status: StatusCode, message: &impl Message) -> Response {
    (status, [(header::CONTENT_TYPE, "application/x-protobuf")], message.encode_to_vec()).into_response()
}

pub(super) fn content_type(headers: &HeaderMap) -> &str {
    header_text(headers, "content-type").split(';').next().unwrap_or_default().trim()
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
