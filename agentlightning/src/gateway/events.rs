//! Events, as Agent-lightning's 1.0 API records what happens in an attempt.
//!
//! A posted event is kept as a span, its data as JSON text; a reward as the annotation span that every reader of
//! rewards knows. Model calls are not posted: they are made of the generations. Request and response of a call are
//! put together from its span, so that only what the span holds is in them; the server's endpoint is not known, and
//! neither is the version of weights that do not count theirs. A call that failed at the gateway has left an event of
//! its own, with its request whole; what was sampled of its answer is no event beside it.

use std::collections::{HashMap, HashSet};

use fulgurite_store::{
    EVENT_DATA, EVENT_REQUEST_DIGEST, EVENT_SPAN, EVENT_TYPE, NewInstantSpan, Result, Sender, Store, StoreError,
    recorded_reward, reward_annotation,
};
use fulgurite_types::{Event, Generation, GenerationFilter, Object, Reward, Span, SpanFilter, StopReason};
use serde_json::{Map, Value, json};

use super::model_request;

/// The type of a model call's events.
pub(super) const MODEL_REQUEST: &str = "model_request";
/// The type of events that give a reward.
pub(super) const REWARD: &str = "reward";
/// The attempt that counts as long as there is none.
const FIRST_ATTEMPT: &str = "0";

/// Records an event of an attempt, which is made if its rollout has none of that name. The data of a reward must be an
/// object whose `value` is a number; a reward is refused if its sender may not give it.
pub(super) async fn add(
    store: &Store,
    sender: &Sender,
    rollout_id: &str,
    attempt_id: &str,
    event_type: &str,
    data: Value,
) -> Result<Event> {
    let (name, attributes) = span_parts(event_type, &data, sender)?;
    let moment =
        NewInstantSpan { rollout_id: rollout_id.to_owned(), attempt_id: attempt_id.to_owned(), name, attributes };
    let timestamp = store.spans().add_instant(sender, moment).await?;
    Ok(Event {
        event_type: event_type.to_owned(),
        rollout_id: rollout_id.to_owned(),
        attempt_id: attempt_id.to_owned(),
        timestamp,
        data,
    })
}

/// The events of the attempt that counts, in the order in which they were recorded: those that were posted, the
/// model calls, and the rewards for the attempt as a whole.
pub(super) async fn of_rollout(store: &Store, rollout_id: &str) -> Result<Vec<Event>> {
    let rollout = store.gateway_rollouts().get(rollout_id).await?;
    let rollout = rollout.ok_or_else(|| StoreError::not_found("rollout", rollout_id))?;
    let attempt_id = rollout.last_attempt_id.unwrap_or_else(|| FIRST_ATTEMPT.to_owned());
    let of_attempt = GenerationFilter {
        rollout_id: Some(rollout_id.to_owned()),
        attempt_id: Some(attempt_id.clone()),
        ..GenerationFilter::default()
    };
    let generations = store.generations().matching(&of_attempt).await?;
    let generations: HashMap<&str, &Generation> =
        generations.iter().map(|generation| (generation.span_id.as_str(), generation)).collect();
    let filter =
        SpanFilter { rollout_id: rollout_id.to_owned(), attempt: Some(attempt_id.into()), ..SpanFilter::default() };
    let spans = store.spans().query(&filter).await?.items;
    let failed = spans.iter().filter_map(|span| span.attributes.get(EVENT_REQUEST_DIGEST)?.as_str());
    let failed: HashSet<&str> = failed.collect();
    let event = |span: &Span| match generations.get(span.span_id.as_str()) {
        Some(generation)
            if generation.stop_reason == StopReason::Error && failed.contains(generation.request_digest.as_str()) =>
        {
            None
        }
        generation => event_of(span, generation.copied()),
    };
    Ok(spans.iter().filter_map(event).collect())
}

/// Name and attributes of the span that keeps an event.
fn span_parts(event_type: &str, data: &Value, sender: &Sender) -> Result<(&'static str, Object)> {
    let (name, mut attributes) = if event_type == REWARD {
        let value = data.get("value").and_then(Value::as_f64);
        let value = value.ok_or_else(|| StoreError::invalid("data.value", "Input should be a valid number"))?;
        reward_annotation(&Reward::new(value), sender)
    } else {
        (EVENT_SPAN, Map::new())
    };
    attributes.insert(EVENT_TYPE.to_owned(), json!(event_type));
    // As text, because the attributes of a span hold nothing deeper than lists.
    attributes.insert(EVENT_DATA.to_owned(), json!(data.to_string()));
    Ok((name, attributes))
}

/// The event of a span, if it has one.
fn event_of(span: &Span, generation: Option<&Generation>) -> Option<Event> {
    let (event_type, data) = if let Some(generation) = generation {
        (MODEL_REQUEST, model_request::data(span, generation))
    } else if let Some(event_type) = span.attributes.get(EVENT_TYPE).and_then(Value::as_str) {
        let text = span.attributes.get(EVENT_DATA).and_then(Value::as_str)?;
        (event_type, serde_json::from_str(text).ok()?)
    } else {
        // A reward for one of the calls is none of the attempt as a whole.
        let recorded = recorded_reward(span).filter(|recorded| recorded.generation_id.is_none())?;
        (REWARD, json!({"value": recorded.reward.value}))
    };
    Some(Event {
        event_type: event_type.to_owned(),
        rollout_id: span.rollout_id.clone(),
        attempt_id: span.attempt_id.clone(),
        timestamp: span.end_time.or(span.start_time).unwrap_or_default(),
        data,
    })
}
