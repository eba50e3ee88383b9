//! The span of a model call, without its tokens.

use std::sync::Arc;

use fulgurite_types::{NewGeneration, Object, Span, SpanStatus, StatusCode};

/// The span of a generation, with these of its attributes and without its tokens.
pub(crate) fn call_span(generation: &NewGeneration, attributes: Object, sequence_id: u64) -> Span {
    Span {
        rollout_id: generation.rollout_id.clone(),
        attempt_id: generation.attempt_id.clone(),
        sequence_id,
        trace_id: generation.trace_id.clone(),
        span_id: generation.span_id.clone(),
        parent_id: None,
        name: generation.name.clone(),
        status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Object::new() },
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        start_time: Some(generation.start_time),
        end_time: Some(generation.end_time),
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Object::new(),
    }
}
