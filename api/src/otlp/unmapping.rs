//! Spans of the store as messages of OTLP: the inverse of `mapping`.

use std::sync::Arc;

use fulgurite_types::{Object, Span, SpanEvent, SpanLink, SpanResource, SpanStatus, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue as OptionalValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{self as wire, span};
use serde_json::{Value, json};

use super::mapping::{ATTEMPT_ID, ROLLOUT_ID, SEQUENCE_ID};

/// One group for each run of spans that share a resource.
pub(super) fn request(spans: &[Span]) -> ExportTraceServiceRequest {
    let same_resource =
        |left: &Span, right: &Span| Arc::ptr_eq(&left.resource, &right.resource) || left.resource == right.resource;
    let resource_spans = spans.chunk_by(same_resource).map(|group| wire::ResourceSpans {
        resource: group.first().map(|span| resource(&span.resource)),
        schema_url: group.first().map(|span| span.resource.schema_url.clone()).unwrap_or_default(),
        scope_spans: vec![wire::ScopeSpans {
            scope: Some(InstrumentationScope { name: "fulgurite".to_owned(), ..InstrumentationScope::default() }),
            spans: group.iter().map(unmapped).collect(),
            schema_url: String::new(),
        }],
    });
    ExportTraceServiceRequest { resource_spans: resource_spans.collect() }
}

fn resource(resource: &SpanResource) -> Resource {
    Resource { attributes: attributes(&resource.attributes), ..Resource::default() }
}

fn unmapped(span: &Span) -> wire::Span {
    let mut own = attributes(&span.attributes);
    own.retain(|pair| ![ROLLOUT_ID, ATTEMPT_ID, SEQUENCE_ID].contains(&pair.key.as_str()));
    own.extend([
        pair(ROLLOUT_ID, &json!(span.rollout_id)),
        pair(ATTEMPT_ID, &json!(span.attempt_id)),
        pair(SEQUENCE_ID, &json!(span.sequence_id)),
    ]);
    wire::Span {
        trace_id: bytes(&span.trace_id),
        span_id: bytes(&span.span_id),
        parent_span_id: span.parent_id.as_deref().map(bytes).unwrap_or_default(),
        name: span.name.clone(),
        // The store keeps no kinds; for calls of models the conventions for generative AI say this one.
        kind: span::SpanKind::Client.into(),
        start_time_unix_nano: nanoseconds(span.start_time),
        end_time_unix_nano: nanoseconds(span.end_time),
        attributes: own,
        events: span.events.iter().map(event).collect(),
        links: span.links.iter().map(link).collect(),
        status: Some(status(&span.status)),
        ..wire::Span::default()
    }
}

fn status(status: &SpanStatus) -> wire::Status {
    wire::Status {
        code: match status.status_code {
            StatusCode::Unset => 0,
            StatusCode::Ok => 1,
            StatusCode::Error => 2,
        },
        message: status.description.clone().unwrap_or_default(),
    }
}

fn event(event: &SpanEvent) -> span::Event {
    span::Event {
        time_unix_nano: nanoseconds(event.timestamp),
        name: event.name.clone(),
        attributes: attributes(&event.attributes),
        ..span::Event::default()
    }
}

fn link(link: &SpanLink) -> span::Link {
    span::Link {
        trace_id: bytes(&link.context.trace_id),
        span_id: bytes(&link.context.span_id),
        attributes: link.attributes.as_ref().map(attributes).unwrap_or_default(),
        ..span::Link::default()
    }
}

/// 0 says that there is no time; one before 1970 cannot be told either.
fn nanoseconds(seconds: Option<f64>) -> u64 {
    let seconds = seconds.unwrap_or_default();
    // Whole seconds apart, so that no digit is lost.
    seconds.trunc() as u64 * 1_000_000_000 + (seconds.fract() * 1e9).round() as u64
}

/// Of hexadecimal digits, as far as they are that.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().map_while(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn attributes(object: &Object) -> Vec<KeyValue> {
    object.iter().map(|(key, value)| pair(key, value)).collect()
}

fn pair(key: &str, given: &Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value(given)), ..KeyValue::default() }
}

fn value(given: &Value) -> OptionalValue {
    let value = match given {
        Value::Null => None,
        Value::Bool(flag) => Some(AnyValue::BoolValue(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Some(AnyValue::IntValue(whole)),
            None => number.as_f64().map(AnyValue::DoubleValue),
        },
        Value::String(text) => Some(AnyValue::StringValue(text.clone())),
        Value::Array(items) => Some(AnyValue::ArrayValue(ArrayValue { values: items.iter().map(value).collect() })),
        Value::Object(fields) => Some(AnyValue::KvlistValue(KeyValueList { values: attributes(fields) })),
    };
    OptionalValue { value }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{IncomingSpan, SpanContext};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Signal, from_protobuf, spans_to_protobuf};
    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300f64).prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                vec((".*", inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn any_attributes() -> impl Strategy<Value = Object> {
        vec(("[a-z.]{1,8}", any_value()), 0..5).prop_map(|pairs| pairs.into_iter().collect())
    }

    /// None, or between 1970 and 2100, as far as a reader of nanoseconds tells it.
    fn any_time() -> impl Strategy<Value = Option<f64>> {
        proptest::option::of((1..4_000_000_000_000_000_000u64).prop_map(|nanoseconds| nanoseconds as f64 / 1e9))
    }

    fn context(trace_id: String, span_id: String) -> SpanContext {
        SpanContext { trace_id, span_id, is_remote: false, trace_state: Default::default(), extra: Object::new() }
    }

    fn any_context() -> impl Strategy<Value = SpanContext> {
        ("[0-9a-f]{31}1", "[0-9a-f]{15}1").prop_map(|(trace_id, span_id)| context(trace_id, span_id))
    }

    fn any_event() -> impl Strategy<Value = SpanEvent> {
        (".*", any_attributes(), any_time()).prop_map(|(name, attributes, timestamp)| SpanEvent {
            name,
            attributes,
            timestamp,
            extra: Object::new(),
        })
    }

    fn any_link() -> impl Strategy<Value = SpanLink> {
        (any_context(), any_attributes()).prop_map(|(context, attributes)| SpanLink {
            context,
            attributes: Some(attributes),
            extra: Object::new(),
        })
    }

    fn any_span() -> impl Strategy<Value = Span> {
        let status = (
            prop_oneof![Just(StatusCode::Unset), Just(StatusCode::Ok), Just(StatusCode::Error)],
            proptest::option::of(".+"),
        );
        let identity = ("[a-z-]{1,9}", "[a-z-]{1,9}", 0..u64::from(u32::MAX), any_context());
        let content = ("[^\0]*", any_attributes(), vec(any_event(), 0..3), vec(any_link(), 0..3));
        let rest = (proptest::option::of("[0-9a-f]{15}1"), any_time(), any_time(), any_attributes(), "[a-z:/]*");
        (identity, content, status, rest).prop_map(|(identity, content, (status_code, description), rest)| {
            let (rollout_id, attempt_id, sequence_id, context) = identity;
            let (name, attributes, events, links) = content;
            let (parent_id, start_time, end_time, of_resource, schema_url) = rest;
            Span {
                rollout_id,
                attempt_id,
                sequence_id,
                trace_id: context.trace_id.clone(),
                span_id: context.span_id.clone(),
                parent_id,
                name,
                status: SpanStatus { status_code, description, extra: Object::new() },
                attributes,
                events,
                links,
                start_time,
                end_time,
                context: Some(context),
                parent: None,
                resource: Arc::new(SpanResource { attributes: of_resource, schema_url, extra: Object::new() }),
                extra: Object::new(),
            }
        })
    }

    /// The times of a span, taken out of it: a reader makes seconds of nanoseconds, which costs a last digit.
    fn times(span: &mut Span) -> Vec<Option<f64>> {
        let of_events = span.events.iter_mut().map(|event| event.timestamp.take()).collect::<Vec<_>>();
        [vec![span.start_time.take(), span.end_time.take()], of_events].concat()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(spans in vec(any_span(), 0..4)) {
            let read = from_protobuf(Signal::Traces, &spans_to_protobuf(&spans)).unwrap();
            prop_assert_eq!(read.rejected.count, 0);
            prop_assert_eq!(read.spans.len(), spans.len());
            for (IncomingSpan { span: mut read, sequence_id }, mut span) in read.spans.into_iter().zip(spans) {
                prop_assert_eq!(sequence_id, Some(span.sequence_id));
                for (read, written) in times(&mut read).into_iter().zip(times(&mut span)) {
                    prop_assert_eq!(read.is_some(), written.is_some());
                    prop_assert!((read.unwrap_or_default() - written.unwrap_or_default()).abs() < 1e-6);
                }
                for (key, own) in [
                    (ROLLOUT_ID, json!(span.rollout_id)),
                    (ATTEMPT_ID, json!(span.attempt_id)),
                    (SEQUENCE_ID, json!(span.sequence_id)),
                ] {
                    span.attributes.insert(key.to_owned(), own);
                }
                prop_assert_eq!(read, span);
            }
        }
    }

    #[test]
    fn times_are_told_to_the_nanosecond() {
        for (seconds, expected) in [(None, 0), (Some(-1.0), 0), (Some(1.5), 1_500_000_000), (Some(1e-9), 1)] {
            assert_eq!(nanoseconds(seconds), expected);
        }
    }
}
