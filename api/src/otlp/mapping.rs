//! Messages of OTLP as spans of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulgurite_types::{
    IncomingSpan, Object, Span, SpanContext, SpanEvent, SpanLink, SpanResource, SpanStatus, StatusCode,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as OptionalValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{self as wire, span};
use serde_json::Value;

use super::batch::{Groups, Refused};
use super::{Export, Signal};

pub(super) const ROLLOUT_ID: &str = "agentlightning.rollout_id";
pub(super) const ATTEMPT_ID: &str = "agentlightning.attempt_id";
pub(super) const SEQUENCE_ID: &str = "agentlightning.span_sequence_id";
/// Hexadecimal digits of the ids.
const TRACE_ID_DIGITS: usize = 32;
const SPAN_ID_DIGITS: usize = 16;

pub(super) fn export(signal: Signal, Groups(groups): Groups) -> Export {
    let mut export = Export::default();
    for group in groups {
        let resource = Arc::new(SpanResource {
            attributes: attributes(group.resource.map(|resource| resource.attributes).unwrap_or_default()),
            schema_url: group.schema_url,
            extra: Object::new(),
        });
        for item in group.items {
            match item.and_then(|span| incoming(signal, span, &resource)) {
                Ok(incoming) if incoming.span.attempt_id.is_empty() => export.unplaced.push(incoming),
                Ok(incoming) => export.spans.push(incoming),
                Err(Refused { id, reason }) => export.rejected.add(|| format!("{} {id}: {reason}", signal.item())),
            }
        }
    }
    export
}

fn incoming(signal: Signal, span: wire::Span, resource: &Arc<SpanResource>) -> Result<IncomingSpan, Refused> {
    let span_id = hexadecimal(&span.span_id, SPAN_ID_DIGITS);
    let trace_id = hexadecimal(&span.trace_id, TRACE_ID_DIGITS);
    let own = attributes(span.attributes);
    let identity = |key: &'static str| own.get(key).or_else(|| resource.attributes.get(key));
    let name = |key: &'static str| {
        let name = identity(key).and_then(Value::as_str).filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| format!("neither the span nor its resource has {key}"))
    };
    let named = check_id("span_id", &span_id, SPAN_ID_DIGITS)
        .and_then(|()| check_id("trace_id", &trace_id, TRACE_ID_DIGITS))
        .and_then(|()| match (name(ROLLOUT_ID), name(ATTEMPT_ID), signal) {
            (Err(_), Err(_), Signal::Logs) => Ok((String::new(), String::new())),
            (rollout_id, attempt_id, _) => Ok((rollout_id?, attempt_id?)),
        })
        .and_then(|names| if has_nul(&names, &span.name) { Err(NUL.to_owned()) } else { Ok(names) });
    let (rollout_id, attempt_id) = match named {
        Ok(names) => names,
        Err(reason) => return Err(Refused { id: span_id, reason }),
    };
    let sequence_id = identity(SEQUENCE_ID).and_then(sequence_id);
    Ok(IncomingSpan {
        sequence_id,
        span: Span {
            rollout_id,
            attempt_id,
            sequence_id: sequence_id.unwrap_or_default(),
            context: Some(context(trace_id.clone(), span_id.clone())),
            trace_id,
            span_id,
            parent_id: Some(span.parent_span_id).filter(|id| !id.is_empty()).map(|id| hexadecimal(&id, SPAN_ID_DIGITS)),
            name: span.name,
            status: status(span.status.unwrap_or_default()),
            attributes: own,
            events: span.events.into_iter().map(event).collect(),
            links: span.links.into_iter().map(link).collect(),
            start_time: seconds(span.start_time_unix_nano),
            end_time: seconds(span.end_time_unix_nano),
            parent: None,
            resource: Arc::clone(resource),
            extra: Object::new(),
        },
    })
}

/// No database text holds it.
const NUL: &str = "its name, or that of its attempt, holds a NUL character";

fn has_nul((rollout_id, attempt_id): &(String, String), name: &str) -> bool {
    [rollout_id, attempt_id, name].iter().any(|text| text.contains('\0'))
}

/// OpenTelemetry's ids have a fixed length and are not 0.
fn check_id(field: &str, id: &str, digits: usize) -> Result<(), String> {
    if id.len() > digits {
        return Err(format!("its {field} has more than {} bytes", digits / 2));
    }
    if id.bytes().all(|digit| digit == b'0') {
        return Err(format!("it has no {field}"));
    }
    Ok(())
}

/// A whole number that the store can hold, or a text of one. Anything else counts as none given.
fn sequence_id(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_i64()?,
    };
    u64::try_from(number).ok()
}

fn context(trace_id: String, span_id: String) -> SpanContext {
    SpanContext { trace_id, span_id, is_remote: false, trace_state: BTreeMap::new(), extra: Object::new() }
}

fn status(status: wire::Status) -> SpanStatus {
    SpanStatus {
        status_code: match status.code {
            1 => StatusCode::Ok,
            2 => StatusCode::Error,
            _ => StatusCode::Unset,
        },
        description: Some(status.message).filter(|message| !message.is_empty()),
        extra: Object::new(),
    }
}

fn event(event: span::Event) -> SpanEvent {
    SpanEvent {
        name: event.name,
        attributes: attributes(event.attributes),
        timestamp: seconds(event.time_unix_nano),
        extra: Object::new(),
    }
}

fn link(link: span::Link) -> SpanLink {
    SpanLink {
        context: context(hexadecimal(&link.trace_id, TRACE_ID_DIGITS), hexadecimal(&link.span_id, SPAN_ID_DIGITS)),
        attributes: Some(attributes(link.attributes)),
        extra: Object::new(),
    }
}

/// Seconds since the Unix epoch; 0 says that there is no time.
fn seconds(nanoseconds: u64) -> Option<f64> {
    (nanoseconds > 0).then(|| nanoseconds as f64 / 1e9)
}

/// Lowercase, filled up with zeros to `digits`.
fn hexadecimal(bytes: &[u8], digits: usize) -> String {
    format!("{:0>digits$}", hex::encode(bytes))
}

fn attributes(pairs: Vec<KeyValue>) -> Object {
    pairs.into_iter().map(|pair| (pair.key, value(pair.value))).collect()
}

/// Bytes become hexadecimal text; what is unset, and a number that is not finite, null.
fn value(given: Option<OptionalValue>) -> Value {
    match given.and_then(|given| given.value) {
        Some(AnyValue::StringValue(text)) => Value::from(text),
        Some(AnyValue::BoolValue(flag)) => Value::from(flag),
        Some(AnyValue::IntValue(number)) => Value::from(number),
        Some(AnyValue::DoubleValue(number)) => Value::from(number),
        Some(AnyValue::ArrayValue(list)) => list.values.into_iter().map(|item| value(Some(item))).collect(),
        Some(AnyValue::KvlistValue(list)) => Value::Object(attributes(list.values)),
        Some(AnyValue::BytesValue(bytes)) => Value::from(hexadecimal(&bytes, 0)),
        Some(AnyValue::StringValueStrindex(_)) | None => Value::Null,
    }
}
