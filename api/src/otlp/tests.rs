use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use prost::Message;
use serde_json::{Value, json};

use super::{Export, spans_from_json, spans_from_protobuf};

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(any(value)), ..KeyValue::default() }
}

fn any(value: AnyValue) -> opentelemetry_proto::tonic::common::v1::AnyValue {
    opentelemetry_proto::tonic::common::v1::AnyValue { value: Some(value) }
}

fn text(value: &str) -> AnyValue {
    AnyValue::StringValue(value.into())
}

fn request(resource: Vec<KeyValue>, spans: Vec<Span>) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: resource, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            schema_url: "https://opentelemetry.io/schemas/1.0".into(),
        }],
    }
}

fn ids() -> Vec<KeyValue> {
    vec![pair("agentlightning.rollout_id", text("ro-1")), pair("agentlightning.attempt_id", text("at-1"))]
}

fn span(attributes: Vec<KeyValue>) -> Span {
    Span { trace_id: vec![0xab; 16], span_id: vec![0x0c; 8], name: "work".into(), attributes, ..Span::default() }
}

fn from_protobuf(request: &ExportTraceServiceRequest) -> Export {
    spans_from_protobuf(&request.encode_to_vec()).unwrap()
}

#[test]
fn a_whole_span_is_mapped_field_by_field() {
    let whole = Span {
        parent_span_id: vec![1, 2],
        start_time_unix_nano: 1_500_000_000,
        end_time_unix_nano: 2_500_000_000,
        kind: 3,
        status: Some(Status { code: 2, message: "lost".into() }),
        events: vec![span::Event {
            time_unix_nano: 2_000_000_000,
            name: "heard".into(),
            attributes: vec![pair("n", AnyValue::IntValue(1))],
            ..span::Event::default()
        }],
        links: vec![span::Link { trace_id: vec![0xde; 16], span_id: vec![0xef; 8], ..span::Link::default() }],
        ..span(vec![
            pair("text", text("a")),
            pair("flag", AnyValue::BoolValue(true)),
            pair("whole", AnyValue::IntValue(-7)),
            pair("real", AnyValue::DoubleValue(1.0)),
            pair("not_finite", AnyValue::DoubleValue(f64::NAN)),
            pair("bytes", AnyValue::BytesValue(vec![0, 255])),
            pair("list", AnyValue::ArrayValue(ArrayValue { values: vec![any(AnyValue::IntValue(1)), any(text("x"))] })),
            pair("object", AnyValue::KvlistValue(KeyValueList { values: vec![pair("a", AnyValue::IntValue(1))] })),
            KeyValue { key: "unset".into(), ..KeyValue::default() },
        ])
    };
    let export = from_protobuf(&request(ids(), vec![whole]));
    assert_eq!(export.rejected.count, 0);
    assert_eq!(export.spans[0].sequence_id, None);
    let mapped = serde_json::to_value(&export.spans[0].span).unwrap();
    let (trace_id, span_id) = ("ab".repeat(16), "0c".repeat(8));
    assert_eq!(
        mapped,
        json!({
            "rollout_id": "ro-1", "attempt_id": "at-1", "sequence_id": 0, "trace_id": trace_id, "span_id": span_id,
            "parent_id": "0000000000000102", "name": "work",
            "status": {"status_code": "ERROR", "description": "lost"},
            "attributes": {"text": "a", "flag": true, "whole": -7, "real": 1.0, "not_finite": null, "bytes": "00ff",
                "list": [1, "x"], "object": {"a": 1}, "unset": null},
            "events": [{"name": "heard", "attributes": {"n": 1}, "timestamp": 2.0}],
            "links": [{"context": {"trace_id": "de".repeat(16), "span_id": "ef".repeat(8), "is_remote": false,
                "trace_state": {}}, "attributes": {}}],
            "start_time": 1.5, "end_time": 2.5,
            "context": {"trace_id": trace_id, "span_id": span_id, "is_remote": false, "trace_state": {}},
            "parent": null,
            "resource": {"attributes": {"agentlightning.rollout_id": "ro-1", "agentlightning.attempt_id": "at-1"},
                "schema_url": "https://opentelemetry.io/schemas/1.0"},
        })
    );
    assert!(mapped["attributes"]["real"].is_f64() && mapped["attributes"]["whole"].is_i64());
}

#[test]
fn what_is_not_said_is_null() {
    let export = from_protobuf(&request(ids(), vec![span(Vec::new())]));
    let span = &export.spans[0].span;
    assert_eq!((span.parent_id.as_deref(), span.start_time, span.end_time), (None, None, None));
    assert_eq!(serde_json::to_value(&span.status).unwrap(), json!({"status_code": "UNSET", "description": null}));
}

#[test]
fn a_span_says_whose_it_is_before_its_resource_does() {
    let own =
        vec![pair("agentlightning.rollout_id", text("ro-2")), pair("agentlightning.span_sequence_id", text("41"))];
    let mut resource = ids();
    resource.push(pair("agentlightning.span_sequence_id", AnyValue::IntValue(9)));
    let export = from_protobuf(&request(resource, vec![span(own), span(Vec::new())]));
    let whose: Vec<_> = export
        .spans
        .iter()
        .map(|found| (found.span.rollout_id.as_str(), found.span.attempt_id.as_str(), found.sequence_id))
        .collect();
    assert_eq!(whose, [("ro-2", "at-1", Some(41)), ("ro-1", "at-1", Some(9))]);
}

#[test]
fn a_sequence_id_that_makes_no_sense_counts_as_none() {
    for value in [AnyValue::IntValue(-1), text("first"), text("9223372036854775808"), AnyValue::DoubleValue(1.0)] {
        let own = vec![pair("agentlightning.span_sequence_id", value.clone())];
        let export = from_protobuf(&request(ids(), vec![span(own)]));
        assert_eq!(export.spans[0].sequence_id, None, "{value:?}");
    }
}

#[test]
fn spans_of_nobody_are_counted_and_the_first_is_named() {
    let stranger = Span { span_id: vec![0; 8], ..span(ids()) };
    let long = Span { trace_id: vec![1; 17], ..span(ids()) };
    let export = from_protobuf(&request(Vec::new(), vec![span(Vec::new()), stranger, span(ids()), long]));
    assert_eq!((export.spans.len(), export.rejected.count), (1, 3));
    assert_eq!(
        export.rejected.first_reason.as_deref(),
        Some("span 0c0c0c0c0c0c0c0c: neither the span nor its resource has agentlightning.rollout_id")
    );
}

#[test]
fn json_says_the_same_as_protobuf() {
    let whole = Span {
        start_time_unix_nano: 1_700_000_000_123_456_789,
        status: Some(Status { code: 1, message: String::new() }),
        ..span(vec![
            pair("whole", AnyValue::IntValue(i64::MIN)),
            pair("bytes", AnyValue::BytesValue(vec![0, 255])),
            pair("list", AnyValue::ArrayValue(ArrayValue { values: vec![any(AnyValue::DoubleValue(0.5))] })),
        ])
    };
    let request = request(ids(), vec![whole]);
    let expected = from_protobuf(&request);
    assert_eq!(spans_from_json(&serde_json::to_vec(&request).unwrap()).unwrap(), expected);

    // As other programs write it: enums by name, numbers instead of texts, nulls, fields of later versions.
    let other = json!({"resourceSpans": [{
        "schemaUrl": "https://opentelemetry.io/schemas/1.0", "later": 1,
        "resource": {"droppedAttributesCount": null, "attributes": [
            {"key": "agentlightning.rollout_id", "value": {"stringValue": "ro-1"}},
            {"key": "agentlightning.attempt_id", "value": {"stringValue": "at-1"}}]},
        "scopeSpans": [{"scope": {"name": "s"}, "spans": [{
            "traceId": "AB".repeat(16), "spanId": "0c".repeat(8), "parentSpanId": null, "name": "work",
            "kind": "SPAN_KIND_CLIENT", "startTimeUnixNano": 1_700_000_000_123_456_789_u64,
            "status": {"code": "STATUS_CODE_OK"}, "attributes": [
                {"key": "whole", "value": {"intValue": i64::MIN}},
                {"key": "bytes", "value": {"bytesValue": "AP8="}},
                {"key": "list", "value": {"arrayValue": {"values": [{"doubleValue": "0.5"}]}}}],
        }]}],
    }]});
    assert_eq!(spans_from_json(other.to_string().as_bytes()).unwrap(), expected);
}

#[test]
fn numbers_that_json_cannot_write_are_null_and_empty_values_too() {
    for value in [json!({"doubleValue": "NaN"}), json!({"doubleValue": "-Infinity"}), json!({}), Value::Null] {
        let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "ab".repeat(16), "spanId": "0c".repeat(8), "attributes": [
                {"key": "agentlightning.rollout_id", "value": {"stringValue": "r"}},
                {"key": "agentlightning.attempt_id", "value": {"stringValue": "a"}},
                {"key": "x", "value": value}],
        }]}]}]});
        let export = spans_from_json(body.to_string().as_bytes()).unwrap();
        assert_eq!(export.spans[0].span.attributes["x"], Value::Null, "{value}");
    }
}

#[test]
fn what_is_not_an_export_is_an_error() {
    for bytes in [&b"\xff\xff"[..], b"{}", b"\x0a\x05"] {
        assert!(spans_from_protobuf(bytes).is_err(), "{bytes:?}");
    }
    for body in [
        "",
        "1",
        "x",
        r#"{"resourceSpans": 1}"#,
        r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "xy"}]}]}]}"#,
    ] {
        assert!(spans_from_json(body.as_bytes()).is_err(), "{body}");
    }
    assert_eq!(spans_from_protobuf(b"").unwrap(), Export::default());
    assert_eq!(spans_from_json(b"{}").unwrap(), Export::default());
}
