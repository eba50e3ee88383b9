use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Object;
use crate::present::present;
use crate::text::words::words;

words! {
    /// How the operation of a span ended.
    StatusCode {
        /// Nobody said.
        Unset = "UNSET",
        /// Well.
        Ok = "OK",
        /// Not well.
        Error = "ERROR",
    }
}

/// How the operation of a span ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanStatus {
    /// The outcome.
    pub status_code: StatusCode,
    /// Why, for an error.
    #[serde(default)]
    pub description: Option<String>,
    /// Keys that this program does not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Where a span stands in its trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanContext {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// Whether it came from another process.
    pub is_remote: bool,
    /// Vendors' state.
    pub trace_state: BTreeMap<String, String>,
    /// Keys that this program does not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Something that happened during a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanEvent {
    /// What.
    pub name: String,
    /// Details.
    pub attributes: Object,
    /// When.
    #[serde(default)]
    pub timestamp: Option<f64>,
    /// Keys that this program does not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Another span that belongs with this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanLink {
    /// Which.
    pub context: SpanContext,
    /// Details.
    #[serde(default)]
    pub attributes: Option<Object>,
    /// Keys that this program does not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// What produced a span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanResource {
    /// Details.
    pub attributes: Object,
    /// The schema that they follow.
    pub schema_url: String,
    /// Keys that this program does not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// One operation that an agent did: an OpenTelemetry span, with the rollout that it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Whose.
    pub rollout_id: String,
    /// During which attempt.
    pub attempt_id: String,
    /// Its place in its rollout; spans of one model call share one.
    pub sequence_id: u64,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits; unique within the attempt.
    pub span_id: String,
    /// The span that this one is part of.
    #[serde(deserialize_with = "present")]
    pub parent_id: Option<String>,
    /// What was done.
    pub name: String,
    /// How it ended.
    pub status: SpanStatus,
    /// Details; whole numbers stay whole, others do not.
    pub attributes: Object,
    /// What happened during it.
    pub events: Vec<SpanEvent>,
    /// What belongs with it.
    pub links: Vec<SpanLink>,
    /// When it began. Beyond 1e12 it is taken for nanoseconds; 0 is null.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<f64>,
    /// When it ended. Read as `start_time` is.
    #[serde(deserialize_with = "time")]
    pub end_time: Option<f64>,
    /// Its own context.
    #[serde(deserialize_with = "present")]
    pub context: Option<SpanContext>,
    /// Its parent's context.
    #[serde(deserialize_with = "present")]
    pub parent: Option<SpanContext>,
    /// What produced it; shared by the spans of one export.
    #[serde(serialize_with = "serialize_shared", deserialize_with = "deserialize_shared")]
    pub resource: Arc<SpanResource>,
    /// Keys that this program does not know; they are kept and given back.
    #[serde(flatten)]
    pub extra: Object,
}

/// A span as a tracer sends it, perhaps without its place in its rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct IncomingSpan {
    /// The span; its own `sequence_id` is not read.
    pub span: Span,
    /// Its place in its rollout; without one it gets the next.
    pub sequence_id: Option<u64>,
}

/// What became of an incoming span.
#[derive(Clone, Debug, PartialEq)]
pub enum Ingested {
    /// It is stored at this place in its rollout.
    Stored {
        /// Its place.
        sequence_id: u64,
    },
    /// A span of its attempt with its id is there already, and stays as it is.
    Duplicate,
    /// Its rollout has no such attempt, or is not known; it was not stored, and is given back.
    UnknownAttempt(Box<Span>),
}

fn serialize_shared<S: Serializer>(resource: &Arc<SpanResource>, serializer: S) -> Result<S::Ok, S::Error> {
    resource.as_ref().serialize(serializer)
}

fn deserialize_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<SpanResource>, D::Error> {
    SpanResource::deserialize(deserializer).map(Arc::new)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.and_then(|time| match time {
        0.0 => None,
        nanoseconds if nanoseconds > 1e12 => Some(nanoseconds / 1e9),
        seconds => Some(seconds),
    }))
}
