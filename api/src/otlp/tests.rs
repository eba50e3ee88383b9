use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use prost::Message;
use serde_json::{Value, json};

use super::{Export, Signal, from_json, from_protobuf};

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

fn exported(request: &ExportTraceServiceRequest) -> Export {
    from_protobuf(Signal::Traces, &request.encode_to_vec()).unwrap()
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
    let export = exported(&request(ids(), vec![whole]));
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
    let export = exported(&request(ids(), vec![span(Vec::new())]));
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
    let export = exported(&request(resource, vec![span(own), span(Vec::new())]));
    let owners: Vec<_> = export
        .spans
        .iter()
        .map(|found| (found.span.rollout_id.as_str(), found.span.attempt_id.as_str(), found.sequence_id))
        .collect();
    assert_eq!(owners, [("ro-2", "at-1", Some(41)), ("ro-1", "at-1", Some(9))]);
}

#[test]
fn a_sequence_id_that_makes_no_sense_counts_as_none() {
    for value in [AnyValue::IntValue(-1), text("first"), text("9223372036854775808"), AnyValue::DoubleValue(1.0)] {
        let own = vec![pair("agentlightning.span_sequence_id", value.clone())];
        let export = exported(&request(ids(), vec![span(own)]));
        assert_eq!(export.spans[0].sequence_id, None, "{value:?}");
    }
}

#[test]
fn spans_of_nobody_are_counted_and_the_first_is_named() {
    let stranger = Span { span_id: vec![0; 8], ..span(ids()) };
    let long = Span { trace_id: vec![1; 17], ..span(ids()) };
    let export = exported(&request(Vec::new(), vec![span(Vec::new()), stranger, span(ids()), long]));
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
    let expected = exported(&request);
    assert_eq!(from_json(Signal::Traces, &serde_json::to_vec(&request).unwrap()).unwrap(), expected);

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
    assert_eq!(from_json(Signal::Traces, other.to_string().as_bytes()).unwrap(), expected);
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
        let export = from_json(Signal::Traces, body.to_string().as_bytes()).unwrap();
        assert_eq!(export.spans[0].span.attributes["x"], Value::Null, "{value}");
    }
}

/// A batch of two spans, of which the first has an id that is none.
fn with_a_bad_one(bad: Value) -> Value {
    let good = serde_json::to_value(span(ids())).unwrap();
    json!({"resourceSpans": [{"scopeSpans": [{"spans": [bad, good]}]}]})
}

#[test]
fn one_span_that_cannot_be_read_does_not_take_its_batch_with_it() {
    for bad in [json!({"spanId": "xy"}), json!(7), json!({"spanId": 7}), json!({"startTimeUnixNano": "soon"})] {
        let export = from_json(Signal::Traces, with_a_bad_one(bad.clone()).to_string().as_bytes()).unwrap();
        assert_eq!((export.spans.len(), export.rejected.count), (1, 1), "{bad}");
        let reason = export.rejected.first_reason.unwrap();
        assert!(reason.starts_with("span number 1 of its resource: "), "{reason}");
    }
    // A name that is not UTF-8.
    let named = Span { name: "~~~~".into(), ..span(Vec::new()) };
    let mut bytes = request(ids(), vec![named, span(Vec::new())]).encode_to_vec();
    let place = bytes.windows(4).position(|window| window == b"~~~~").unwrap();
    bytes[place] = 0xff;
    let export = from_protobuf(Signal::Traces, &bytes).unwrap();
    assert_eq!((export.spans.len(), export.rejected.count), (1, 1));
}

/// Values in values, so many.
fn nested(depth: usize) -> String {
    let (open, close) = (r#"{"arrayValue":{"values":["#, "]}}");
    format!(r#"[{{"key":"deep","value":{}{{"intValue":1}}{}}}]"#, open.repeat(depth), close.repeat(depth))
}

#[test]
fn a_part_that_lies_too_deep_does_not_take_its_batch_with_it() {
    let good = serde_json::to_string(&span(ids())).unwrap();
    let ids_of_record = r#""traceId":"abababababababababababababababab","spanId":"0c0c0c0c0c0c0c0c""#;
    let event = r#""eventName":"gen_ai.client.inference.operation.details""#;
    let record = format!("{{{ids_of_record},{event}}}");
    for depth in [40, 60, 20_000] {
        let deep = nested(depth);
        let spans = format!(r#"{{"scopeSpans":[{{"spans":[{{"attributes":{deep}}},{good}]}}]}}"#);
        let records =
            format!(r#"{{"scopeLogs":[{{"logRecords":[{{{ids_of_record},{event},"attributes":{deep}}},{record}]}}]}}"#);
        for (signal, body) in [
            (Signal::Traces, format!(r#"{{"resourceSpans":[{spans}]}}"#)),
            (Signal::Logs, format!(r#"{{"resourceLogs":[{records}]}}"#)),
        ] {
            let export = from_json(signal, body.as_bytes()).unwrap();
            assert_eq!((export.spans.len() + export.unplaced.len()) as i64 + export.rejected.count, 2);
            assert!(export.rejected.count == 1 || depth == 40, "{:?}", export.rejected);
            let reason = export.rejected.first_reason.unwrap_or_default();
            assert!(depth == 40 || reason.contains("recursion limit exceeded"), "{reason}");
        }
        let resource = format!(r#"{{"resource":{{"attributes":{deep}}},"scopeSpans":[{{"spans":[{good}]}}]}}"#);
        let scope = format!(r#"{{"scopeSpans":[{{"scope":{{"attributes":{deep}}},"spans":[{good}]}}]}}"#);
        let body = format!(r#"{{"resourceSpans":[{resource},{scope}],"other":{deep}}}"#);
        let export = from_json(Signal::Traces, body.as_bytes()).unwrap();
        assert_eq!(export.spans.len() as i64 + export.rejected.count, 2);
        assert!(export.rejected.count == 1 || depth == 40, "{:?}", export.rejected);
    }
    // In protobuf a value in a value is two messages, of which a hundred may lie in each other.
    let deep =
        (0..60).fold(AnyValue::IntValue(1), |value, _| AnyValue::ArrayValue(ArrayValue { values: vec![any(value)] }));
    let bytes = request(ids(), vec![span(vec![pair("deep", deep)]), span(Vec::new())]).encode_to_vec();
    let export = from_protobuf(Signal::Traces, &bytes).unwrap();
    assert_eq!((export.spans.len(), export.rejected.count), (1, 1));
}

#[test]
fn a_resource_or_a_scope_that_cannot_be_read_does_not_take_its_batch_with_it() {
    let good = json!({"scopeSpans": [{"spans": [serde_json::to_value(span(ids())).unwrap()]}]});
    for (bad, reason) in [
        (json!(7), "span of resource number 1: cannot be read: "),
        (json!({"scopeSpans": 7}), "span of resource number 1: cannot be read: "),
        (json!({"schemaUrl": 7}), "span of resource number 1: cannot be read: "),
        (json!({"scopeSpans": ["x"]}), "span number 1 of its resource: its scope cannot be read: "),
        (json!({"scopeSpans": [{"spans": {}}]}), "span number 1 of its resource: its scope cannot be read: "),
        (
            json!({"resource": 7, "scopeSpans": [{"spans": [{}]}]}),
            "span number 1 of its resource: its resource cannot be",
        ),
    ] {
        let body = json!({"resourceSpans": [bad.clone(), good]});
        let export = from_json(Signal::Traces, body.to_string().as_bytes()).unwrap();
        assert_eq!((export.spans.len(), export.rejected.count), (1, 1), "{bad}");
        let reason_given = export.rejected.first_reason.unwrap();
        assert!(reason_given.starts_with(reason), "{bad}: {reason_given}");
    }
    // A resource's attribute and a scope's name that are not UTF-8.
    for (place, found) in [("resource", 2), ("scope", 2)] {
        let mut bad = request(
            if place == "resource" { vec![pair("~~~~", AnyValue::IntValue(1))] } else { ids() },
            vec![span(ids())],
        );
        bad.resource_spans[0].scope_spans[0].schema_url = if place == "scope" { "~~~~".into() } else { String::new() };
        bad.resource_spans.extend(request(ids(), vec![span(Vec::new())]).resource_spans);
        let mut bytes = bad.encode_to_vec();
        let place = bytes.windows(4).position(|window| window == b"~~~~").unwrap();
        bytes[place] = 0xff;
        let export = from_protobuf(Signal::Traces, &bytes).unwrap();
        assert_eq!(export.spans.len() as i64 + export.rejected.count, found);
        assert!(!export.spans.is_empty());
    }
}

#[test]
fn a_list_without_values_is_an_empty_one() {
    for (value, expected) in [
        (json!({"arrayValue": {}}), json!([])),
        (json!({"kvlistValue": {}}), json!({})),
        (json!({"arrayValue": {"values": [{"arrayValue": {"values": null}}]}}), json!([[]])),
    ] {
        let mut good = serde_json::to_value(span(ids())).unwrap();
        good["attributes"].as_array_mut().unwrap().push(json!({"key": "x", "value": value}));
        let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [good]}]}]});
        let export = from_json(Signal::Traces, body.to_string().as_bytes()).unwrap();
        assert_eq!(export.spans[0].span.attributes["x"], expected, "{value}");
    }
}

#[test]
fn an_event_with_messages_is_a_span_below_the_calls_and_no_other_record_is_kept() {
    let record = json!({
        "traceId": "ab".repeat(16), "spanId": "0c".repeat(8), "timeUnixNano": "1500000000",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": [{"key": "gen_ai.input.messages", "value": {"stringValue": "[]"}}],
    });
    let older = json!({
        "traceId": "ab".repeat(16), "spanId": "0d".repeat(8), "observedTimeUnixNano": 5,
        "attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.client.inference.operation.details"}}],
        "body": {"kvlistValue": {"values": [{"key": "gen_ai.output.messages", "value": {"arrayValue": {"values": []}}}]}},
    });
    let other = json!({"body": {"stringValue": "hello"}, "traceId": "ab".repeat(16), "spanId": "0c".repeat(8)});
    let resource = json!({"attributes": [
        {"key": "agentlightning.rollout_id", "value": {"stringValue": "r"}},
        {"key": "agentlightning.attempt_id", "value": {"stringValue": "a"}},
    ]});
    let body = json!({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record, older, other]}]}]});
    let export = from_json(Signal::Logs, body.to_string().as_bytes()).unwrap();
    let found: Vec<_> = export.spans.iter().map(|incoming| &incoming.span).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].parent_id.as_deref(), Some(&*"0c".repeat(8)));
    assert_eq!((found[0].name.as_str(), found[0].start_time), ("gen_ai.client.inference.operation.details", Some(1.5)));
    assert_eq!(found[1].attributes["gen_ai.output.messages"], json!([]));
    assert_eq!(export, from_json(Signal::Logs, body.to_string().as_bytes()).unwrap());
    assert_eq!(export.rejected.count, 1);
    let reason =
        "log record number 3 of its resource: only events `gen_ai.client.inference.operation.details` are kept";
    assert_eq!(export.rejected.first_reason.as_deref(), Some(reason));
}

#[test]
fn what_is_not_an_export_is_an_error() {
    for bytes in [&b"\xff\xff"[..], b"{}", b"\x0a\x05"] {
        assert!(from_protobuf(Signal::Traces, bytes).is_err(), "{bytes:?}");
    }
    for body in ["", "1", "x", r#"{"resourceSpans": 1}"#, r#"{"messages": []}"#, r#"{"resource_spans": []}"#] {
        assert!(from_json(Signal::Traces, body.as_bytes()).is_err(), "{body}");
    }
    assert_eq!(from_protobuf(Signal::Traces, b"").unwrap(), Export::default());
    assert_eq!(from_json(Signal::Traces, b"{}").unwrap(), Export::default());
}
