//! Attributes of model calls that come next to their spans: in an event of a span, or in a log record that is kept as a span
//! below the call's (OpenTelemetry's conventions for generative AI).

use std::collections::HashMap;

use fulgurite_types::{Object, Span};

/// The event that has a call's messages.
const EVENT: &str = "gen_ai.client.inference.operation.details";

/// The attributes of model calls that came next to their spans.
#[derive(Debug)]
pub struct CallDetails<'s> {
    by_call: HashMap<(&'s str, &'s str), &'s Object>,
}

impl<'s> CallDetails<'s> {
    /// All that are among spans.
    pub fn of(spans: &'s [Span]) -> Self {
        let mut by_call = HashMap::new();
        for span in spans {
            if let Some(parent_id) = span.parent_id.as_deref().filter(|_| Self::are(span)) {
                by_call.insert((&span.trace_id[..], parent_id), &span.attributes);
            }
            for event in span.events.iter().filter(|event| event.name == EVENT) {
                by_call.insert((&span.trace_id[..], &span.span_id[..]), &event.attributes);
            }
        }
        Self { by_call }
    }

    /// A call's own attributes with those that came next to its span; `None` if none came.
    pub fn with_attributes(&self, span: &Span) -> Option<Object> {
        let details = self.by_call.get(&(&span.trace_id[..], &span.span_id[..]))?;
        let mut all = (*details).clone();
        all.extend(span.attributes.clone());
        Some(all)
    }

    /// Whether a span is a log record with the messages of the call above it.
    pub fn are(span: &Span) -> bool {
        span.name == EVENT && span.parent_id.is_some()
    }
}
