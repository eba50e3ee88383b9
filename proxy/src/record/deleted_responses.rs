//! Responses that their client has deleted: a span of the attempt says so, beside the record of the call, which stays.

use std::sync::Arc;

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{AttemptRef, Generation, Span, SpanFilter, SpanStatus, StatusCode, TextFilter};
use serde_json::{Map, json};
use sha2::{Digest, Sha256};

use crate::record::recorded_call::RecordedCall;
use fulgurite_types::time::now;

const DELETED: &str = "fulgurite.response.deleted";

/// Records that a response was deleted. One that was already stays so.
pub(crate) async fn mark_as_deleted(store: &Store, call: &RecordedCall) -> Result<(), StoreError> {
    let generation = &call.generation;
    let (sequence_id, time) = (store.spans().next_sequence_id(&generation.rollout_id).await?, now());
    let span = Span {
        rollout_id: generation.rollout_id.clone(),
        attempt_id: generation.attempt_id.clone(),
        sequence_id,
        trace_id: generation.trace_id.clone(),
        span_id: span_id(generation),
        parent_id: Some(generation.span_id.clone()),
        name: DELETED.to_owned(),
        status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Map::new() },
        attributes: Map::from_iter([("fulgurite.response.id".to_owned(), json!(generation.generation_id))]),
        events: Vec::new(),
        links: Vec::new(),
        start_time: Some(time),
        end_time: Some(time),
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Map::new(),
    };
    store.spans().add(vec![span]).await?;
    Ok(())
}

/// Whether a response was deleted.
pub(super) async fn is_deleted(store: &Store, generation: &Generation) -> Result<bool, StoreError> {
    let filter = SpanFilter {
        rollout_id: generation.rollout_id.clone(),
        attempt: Some(AttemptRef::Id(generation.attempt_id.clone())),
        span_id: TextFilter { equals: Some(span_id(generation)), contains: None },
        ..SpanFilter::default()
    };
    Ok(store.spans().query(&filter).await?.items.iter().any(|span| span.name == DELETED))
}

/// The id of the span that says so, which follows from the response's, so that it is found without a search.
fn span_id(generation: &Generation) -> String {
    let digest = Sha256::new().chain_update(DELETED).chain_update(&generation.generation_id).finalize();
    format!("{:.16}", format!("{digest:x}"))
}
