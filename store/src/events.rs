//! Events, as Agent-lightning's 1.0 API records what happens in an attempt.
//!
//! A posted event is kept as a span, its data as JSON text; a reward as the annotation span that every reader of
//! rewards knows. Model calls are not posted: they are told from the generations. Request and response of a call are
//! put together from its span, so that only what the span says is in them; the server's endpoint is not known, and
//! neither is the version of weights that do not count theirs.

mod model_request;

use std::collections::HashMap;
use std::sync::Arc;

use fulgurite_types::{Event, Generation, GenerationFilter, Object, Reward, Span, SpanFilter, SpanStatus, StatusCode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::attempts::hear_of;
use crate::checksums::Recorded;
use crate::gateway::open_attempt;
use crate::reward_rights::{Sender, admit};
use crate::rewards::{self, EVENT_TYPE, recorded_reward};
use crate::spans::{allocate_sequence_id, insert_span};
use crate::writer::{Write, now};
use crate::{Result, Store, StoreError};

/// The type of events that tell of a model call.
pub(crate) const MODEL_REQUEST: &str = "model_request";
/// The type of events that give a reward.
pub(crate) const REWARD: &str = "reward";
/// The attempt that counts as long as there is none.
const FIRST_ATTEMPT: &str = "0";

const SPAN_NAME: &str = "agentlightning.event";
const EVENT_DATA: &str = "agentlightning.event.data";

impl Store {
    /// Records an event of an attempt, which is made if its rollout has none of that name. The data of a reward must
    /// be an object whose `value` is a number.
    pub async fn add_event(&self, rollout_id: &str, attempt_id: &str, event_type: &str, data: Value) -> Result<Event> {
        self.add_event_of(&Sender::Server, rollout_id, attempt_id, event_type, data).await
    }

    /// As [`Store::add_event`]; a reward is refused if whoever sends it may not give it.
    pub async fn add_event_of(
        &self,
        sender: &Sender,
        rollout_id: &str,
        attempt_id: &str,
        event_type: &str,
        data: Value,
    ) -> Result<Event> {
        let event = Event {
            event_type: event_type.to_owned(),
            rollout_id: rollout_id.to_owned(),
            attempt_id: attempt_id.to_owned(),
            timestamp: now(),
            data,
        };
        let (name, attributes) = span_parts(&event, sender)?;
        let sender = sender.clone();
        self.write(move |write| Box::pin(async move { record(write, event, &sender, name, attributes).await })).await
    }

    /// The events of the attempt that counts, in the order in which they were recorded: those that were posted, the
    /// model calls, and the rewards for the attempt as a whole.
    pub async fn events(&self, rollout_id: &str) -> Result<Vec<Event>> {
        let rollout = self.gateway_rollout(rollout_id).await?;
        let rollout = rollout.ok_or_else(|| StoreError::not_found("rollout", rollout_id))?;
        let attempt_id = rollout.last_attempt_id.unwrap_or_else(|| FIRST_ATTEMPT.to_owned());
        let of_attempt = GenerationFilter {
            rollout_id: Some(rollout_id.to_owned()),
            attempt_id: Some(attempt_id.clone()),
            ..GenerationFilter::default()
        };
        let generations = self.generations(&of_attempt).await?;
        let generations: HashMap<&str, &Generation> =
            generations.iter().map(|generation| (generation.span_id.as_str(), generation)).collect();
        let filter =
            SpanFilter { rollout_id: rollout_id.to_owned(), attempt: Some(attempt_id.into()), ..SpanFilter::default() };
        let spans = self.query_spans(&filter).await?.items;
        Ok(spans.iter().filter_map(|span| event_of(span, generations.get(span.span_id.as_str()).copied())).collect())
    }
}

/// Name and attributes of the span that keeps an event.
fn span_parts(event: &Event, sender: &Sender) -> Result<(&'static str, Object)> {
    let (name, mut attributes) = if event.event_type == REWARD {
        let value = event.data.get("value").and_then(Value::as_f64);
        let value = value.ok_or_else(|| StoreError::invalid("data.value", "Input should be a valid number"))?;
        (rewards::ANNOTATION, rewards::attributes(&Reward::new(value), None, sender.giver()))
    } else {
        (SPAN_NAME, Map::new())
    };
    attributes.insert(EVENT_TYPE.to_owned(), json!(event.event_type));
    // As text, because the attributes of a span hold nothing deeper than lists.
    attributes.insert(EVENT_DATA.to_owned(), json!(event.data.to_string()));
    Ok((name, attributes))
}

async fn record(write: &mut Write, event: Event, sender: &Sender, name: &str, attributes: Object) -> Result<Event> {
    let attempt = open_attempt(write, &event.rollout_id, &event.attempt_id).await?;
    if name == rewards::ANNOTATION {
        admit(write.connection(), &attempt, None, sender).await?;
    }
    let id = Uuid::now_v7().simple().to_string();
    let span = Span {
        rollout_id: event.rollout_id.clone(),
        attempt_id: event.attempt_id.clone(),
        sequence_id: allocate_sequence_id(write, &event.rollout_id).await?,
        // The id's low half is its random one.
        span_id: id[16..].to_owned(),
        trace_id: id,
        parent_id: None,
        name: name.to_owned(),
        status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Object::new() },
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        start_time: Some(event.timestamp),
        end_time: Some(event.timestamp),
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Object::new(),
    };
    if !insert_span(write, &span).await? {
        return Err(StoreError::Conflict { kind: "span", id: span.span_id });
    }
    hear_of(write, &event.rollout_id, &event.attempt_id, Recorded::default()).await?;
    Ok(event)
}

/// The event that a span tells of, if it does.
fn event_of(span: &Span, generation: Option<&Generation>) -> Option<Event> {
    let (event_type, data) = if let Some(generation) = generation {
        (MODEL_REQUEST, model_request::data(span, generation))
    } else if let Some(event_type) = span.attributes.get(EVENT_TYPE).and_then(Value::as_str) {
        let text = span.attributes.get(EVENT_DATA).and_then(Value::as_str)?;
        (event_type, serde_json::from_str(text).ok()?)
    } else {
        // A reward for one of the calls says nothing of the attempt as a whole.
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
