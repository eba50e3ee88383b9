//! The triplets that an attempt's spans make.

use fulgurite_agentlightning::{
    Triplet, TripletOptions, TripletReport, any_triplets, llm_proxy_triplets, tracer_triplets,
};
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{Attempt, AttemptRef, GenerationFilter, Span, SpanFilter};

/// Which spans are read for triplets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripletAdapter {
    /// All of them.
    Any,
    /// A tracer's.
    Tracer,
    /// LiteLLM's.
    LlmProxy,
}

/// The triplets of an attempt as they are where nothing else is asked for.
///
/// # Errors
/// If the store does not answer.
pub async fn triplets_of(store: &Store, attempt: &Attempt) -> Result<Vec<Triplet>, StoreError> {
    let options = TripletOptions { skip_empty_token_spans: true, ..TripletOptions::default() };
    Ok(triplet_report(store, attempt, TripletAdapter::Any, &options).await?.triplets)
}

/// All spans of an attempt.
///
/// # Errors
/// If the store does not answer.
pub async fn spans_of(store: &Store, attempt: &Attempt) -> Result<Vec<Span>, StoreError> {
    let filter = SpanFilter {
        rollout_id: attempt.rollout_id.clone(),
        attempt: Some(AttemptRef::Id(attempt.attempt_id.clone())),
        ..SpanFilter::default()
    };
    Ok(store.spans().query(&filter).await?.items)
}

/// The triplets of an attempt, and why its other spans are none.
///
/// # Errors
/// If the store does not answer.
pub async fn triplet_report(
    store: &Store,
    attempt: &Attempt,
    adapter: TripletAdapter,
    options: &TripletOptions,
) -> Result<TripletReport, StoreError> {
    let spans = spans_of(store, attempt).await?;
    let report = match adapter {
        TripletAdapter::Any => any_triplets(&spans, options),
        TripletAdapter::Tracer => tracer_triplets(&spans, options),
        TripletAdapter::LlmProxy => llm_proxy_triplets(&spans),
    };
    let filter = GenerationFilter {
        rollout_id: Some(attempt.rollout_id.clone()),
        attempt_id: Some(attempt.attempt_id.clone()),
        ..GenerationFilter::default()
    };
    Ok(report.with_generations(&store.generations().matching(&filter).await?))
}
