//! The batches of OTLP's signals, item by item: one that cannot be read does not take the others with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as OptionalValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json;
use super::signal::Signal;

/// The event that has the messages of a model call (OpenTelemetry's conventions for generative AI).
const MESSAGES_EVENT: &str = "gen_ai.client.inference.operation.details";
/// Where an event's name was before log records had a field for it.
const EVENT_NAME: &str = "event.name";

/// What came of one resource.
pub(super) struct Group {
    pub resource: Option<Resource>,
    pub schema_url: String,
    pub items: Vec<Result<Span, Refused>>,
}

/// A span or log record that cannot be stored.
pub(super) struct Refused {
    /// Its id, or what is known of it.
    pub id: String,
    pub reason: String,
}

impl From<ExportTraceServiceRequest> for Groups {
    fn from(request: ExportTraceServiceRequest) -> Self {
        let group = |group: opentelemetry_proto::tonic::trace::v1::ResourceSpans| Group {
            resource: group.resource,
            schema_url: group.schema_url,
            items: group.scope_spans.into_iter().flat_map(|scope| scope.spans).map(Ok).collect(),
        };
        Self(request.resource_spans.into_iter().map(group).collect())
    }
}

/// All of a request.
pub(super) struct Groups(pub Vec<Group>);

/// A request of either signal, of which the items are not read yet; the fields have the same numbers.
#[derive(Clone, PartialEq, Message)]
struct WireRequest {
    #[prost(bytes = "vec", repeated, tag = "1")]
    groups: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct WireGroup {
    #[prost(bytes = "vec", optional, tag = "1")]
    resource: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    scopes: Vec<Vec<u8>>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireScope {
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

/// `opentelemetry.proto.logs.v1.LogRecord`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct LogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(message, optional, tag = "5")]
    body: Option<OptionalValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    event_name: String,
}

/// Reads a request in protobuf.
pub(super) fn from_protobuf(signal: Signal, bytes: &[u8]) -> Result<Groups, prost::DecodeError> {
    if signal == Signal::Traces
        && let Ok(request) = ExportTraceServiceRequest::decode(bytes)
    {
        return Ok(request.into());
    }
    let request = WireRequest::decode(bytes)?;
    let item = |bytes: Vec<u8>| match signal {
        Signal::Traces => Span::decode(&bytes[..]).map_err(|error| error.to_string()),
        Signal::Logs => LogRecord::decode(&bytes[..]).map_err(|error| error.to_string()).and_then(span_of_record),
    };
    let scope = |bytes: &Vec<u8>| WireScope::decode(&bytes[..]).map(|scope| scope.items);
    let group = |(place, bytes): (usize, Vec<u8>)| match WireGroup::decode(&bytes[..]) {
        Ok(group) => {
            let resource = group.resource.map(|bytes| Resource::decode(&bytes[..])).transpose();
            group_of(resource, group.schema_url, group.scopes.iter().map(scope), item)
        }
        Err(error) => unreadable_group(place, &error),
    };
    Ok(Groups(request.groups.into_iter().enumerate().map(group).collect()))
}

/// A request in JSON, of which the parts are not read yet: how deep one lies does not matter to the others.
#[derive(Deserialize)]
struct JsonRequest<'r> {
    #[serde(borrow, default, alias = "resourceSpans", alias = "resourceLogs")]
    groups: Option<Vec<&'r RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonGroup<'r> {
    #[serde(borrow, default)]
    resource: Option<&'r RawValue>,
    #[serde(borrow, default, alias = "scopeSpans", alias = "scopeLogs")]
    scopes: Option<Vec<&'r RawValue>>,
    #[serde(default)]
    schema_url: Option<String>,
}

#[derive(Deserialize)]
struct JsonScope<'r> {
    #[serde(borrow, default, alias = "spans", alias = "logRecords")]
    items: Option<Vec<&'r RawValue>>,
}

/// Reads a request in JSON.
///
/// # Errors
/// A body that is not JSON, or that has fields but none of an export's: it was meant for another endpoint.
pub(super) fn from_json(signal: Signal, bytes: &[u8]) -> Result<Groups, String> {
    if signal == Signal::Traces
        && let Ok(request) = json::normalised(bytes)
        && let Ok(request) = ExportTraceServiceRequest::deserialize(request)
    {
        if request.resource_spans.is_empty() {
            check_that_it_is_an_export(bytes)?;
        }
        return Ok(request.into());
    }
    let request: JsonRequest<'_> = serde_json::from_slice(bytes).map_err(json::without_place)?;
    if request.groups.is_none() {
        check_that_it_is_an_export(bytes)?;
    }
    let item = |item: &RawValue| {
        let item = json::normalised(item.get().as_bytes())?;
        match signal {
            Signal::Traces => Span::deserialize(item).map_err(|error| error.to_string()),
            Signal::Logs => record_of_json(item).and_then(span_of_record),
        }
    };
    let resource = |resource: &RawValue| {
        let resource = json::normalised(resource.get().as_bytes())?;
        Resource::deserialize(resource).map_err(|error| error.to_string())
    };
    let group = |(place, group): (usize, &RawValue)| match serde_json::from_str::<JsonGroup<'_>>(group.get()) {
        Ok(group) => {
            let scopes = group.scopes.unwrap_or_default().into_iter().map(items_of_scope);
            group_of(group.resource.map(resource).transpose(), group.schema_url.unwrap_or_default(), scopes, item)
        }
        Err(error) => unreadable_group(place, &json::without_place(error)),
    };
    Ok(Groups(request.groups.unwrap_or_default().into_iter().enumerate().map(group).collect()))
}

/// Whether a body from which nothing was read says at least that it is an export, or nothing at all.
fn check_that_it_is_an_export(bytes: &[u8]) -> Result<(), String> {
    let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(bytes).map_err(json::without_place)?;
    let known = ["resourceSpans", "resourceLogs"];
    if fields.is_empty() || known.iter().any(|name| fields.contains_key(*name)) {
        return Ok(());
    }
    Err(format!("it has neither {} nor {}", known[0], known[1]))
}

fn items_of_scope(scope: &RawValue) -> Result<Vec<&RawValue>, String> {
    let scope: JsonScope<'_> = serde_json::from_str(scope.get()).map_err(json::without_place)?;
    Ok(scope.items.unwrap_or_default())
}

/// One resource's spans or log records. What cannot be read is refused alone: an item, a scope, or all items of a resource
/// that cannot be.
fn group_of<I, E: fmt::Display>(
    resource: Result<Option<Resource>, E>,
    schema_url: String,
    scopes: impl Iterator<Item = Result<Vec<I>, E>>,
    read: impl Fn(I) -> Result<Span, String>,
) -> Group {
    let mut items = Vec::new();
    let mut add = |item: Result<Span, String>| {
        let place = items.len() + 1;
        items.push(item.map_err(|reason| Refused { id: format!("number {place} of its resource"), reason }));
    };
    for scope in scopes {
        match (scope, &resource) {
            (Err(error), _) => add(Err(format!("its scope cannot be read: {error}"))),
            (Ok(found), Err(error)) => {
                found.iter().for_each(|_| add(Err(format!("its resource cannot be read: {error}"))));
            }
            (Ok(found), Ok(_)) => found.into_iter().for_each(|item| add(read(item))),
        }
    }
    Group { resource: resource.unwrap_or_default(), schema_url, items }
}

/// A resource of which not even the scopes can be told apart; it counts as one item.
fn unreadable_group(place: usize, error: &impl fmt::Display) -> Group {
    let refused =
        Refused { id: format!("of resource number {}", place + 1), reason: format!("cannot be read: {error}") };
    Group { resource: None, schema_url: String::new(), items: vec![Err(refused)] }
}

/// A log record of JSON, by way of the span whose fields are written as its own.
fn record_of_json(mut record: Value) -> Result<LogRecord, String> {
    let mut field = |name: &str| record.get_mut(name).map(Value::take);
    let as_span = json!({
        "traceId": field("traceId").unwrap_or_else(|| json!("")),
        "spanId": field("spanId").unwrap_or_else(|| json!("")),
        "attributes": field("attributes").unwrap_or_else(|| json!([])),
        "startTimeUnixNano": field("timeUnixNano").unwrap_or_else(|| json!("0")),
        "endTimeUnixNano": field("observedTimeUnixNano").unwrap_or_else(|| json!("0")),
    });
    let body = field("body").map(OptionalValue::deserialize).transpose().map_err(|error| error.to_string())?;
    let event_name = field("eventName").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let span = Span::deserialize(as_span).map_err(|error| error.to_string())?;
    Ok(LogRecord {
        time_unix_nano: span.start_time_unix_nano,
        observed_time_unix_nano: span.end_time_unix_nano,
        body,
        attributes: span.attributes,
        trace_id: span.trace_id,
        span_id: span.span_id,
        event_name,
    })
}

/// The event of a model call's messages as a span below that of the call. The same record is the same span again.
fn span_of_record(mut record: LogRecord) -> Result<Span, String> {
    let mut hasher = DefaultHasher::new();
    record.encode_to_vec().hash(&mut hasher);
    let given = record.attributes.iter().find(|pair| pair.key == EVENT_NAME).and_then(|pair| pair.value.as_ref());
    if let (true, Some(AnyValue::StringValue(name))) =
        (record.event_name.is_empty(), given.and_then(|given| given.value.as_ref()))
    {
        record.event_name.clone_from(name);
    }
    if record.event_name != MESSAGES_EVENT {
        return Err(format!("only events `{MESSAGES_EVENT}` are kept"));
    }
    if record.span_id.iter().all(|byte| *byte == 0) {
        return Err("it names no span".to_owned());
    }
    if let Some(AnyValue::KvlistValue(fields)) = record.body.and_then(|body| body.value) {
        record.attributes.extend(fields.values);
    }
    let time = if record.time_unix_nano > 0 { record.time_unix_nano } else { record.observed_time_unix_nano };
    Ok(Span {
        trace_id: record.trace_id,
        span_id: hasher.finish().max(1).to_be_bytes().to_vec(),
        parent_span_id: record.span_id,
        name: record.event_name,
        attributes: record.attributes,
        start_time_unix_nano: time,
        end_time_unix_nano: time,
        ..Span::default()
    })
}
