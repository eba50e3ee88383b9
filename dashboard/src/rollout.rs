//! One rollout as a person reads it: what was asked and answered, what was earned, in the order in which it happened.

use std::collections::HashSet;

use axum::Json;
use axum::extract::{Path, State};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_store::{CallDetails, SpanMessage, Store, recorded_reward};
use fulgurite_types::{Attempt, AttemptRef, Generation, GenerationFilter, Object, Rollout, Span, SpanFilter};
use serde::Serialize;
use serde_json::Value;

/// Characters of one message that are sent; the rest is said to be left out.
const MESSAGE: usize = 20_000;

/// A rollout and its attempts.
#[derive(Serialize)]
pub(super) struct RolloutPage {
    rollout: Rollout,
    attempts: Vec<AttemptPage>,
}

#[derive(Serialize)]
struct AttemptPage {
    attempt: Attempt,
    events: Vec<Event>,
}

/// What happened.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Event {
    /// A model call.
    Call(Box<Call>),
    /// A reward.
    Reward { value: f64, components: serde_json::Map<String, Value>, giver: Value, time: Option<f64> },
    /// Anything else that was traced.
    Span {
        span_id: String,
        parent_span_id: Option<String>,
        name: String,
        start_time: Option<f64>,
        end_time: Option<f64>,
        attributes: Object,
    },
}

/// A model call.
#[derive(Serialize)]
struct Call {
    span_id: String,
    parent_span_id: Option<String>,
    generation_id: Option<Value>,
    /// The call that its prompt goes on from, token by token.
    parent_id: Option<Value>,
    /// Why it goes on from none.
    branch_reason: Option<Value>,
    prompt_tokens: Option<Value>,
    sampled_tokens: Option<Value>,
    /// Tokens of its prompt that were not read again.
    cached_tokens: Option<Value>,
    model: Option<Value>,
    start_time: Option<f64>,
    end_time: Option<f64>,
    /// Messages of its prompt that the call before has not shown.
    messages: Vec<Message>,
    /// How many it has.
    shown_before: usize,
    answer: Vec<Message>,
    stop: Option<Value>,
}

#[derive(Serialize)]
struct Message {
    role: String,
    text: String,
    tool_calls: Vec<(String, String)>,
    /// Characters that were left out.
    left_out: usize,
}

/// `GET /ui/data/rollouts/{rollout_id}`.
pub(super) async fn read(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply<RolloutPage> {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    let Some((rollout, _)) = store.rollouts().get(&rollout_id).await.map_err(RestError::Store)? else {
        return Err(RestError::NotFound(format!("Rollout not found: {rollout_id}")));
    };
    let mut attempts = Vec::new();
    for attempt in store.attempts().of_rollout(&rollout_id).await.map_err(RestError::Store)? {
        let filter = SpanFilter {
            rollout_id: rollout_id.clone(),
            attempt: Some(AttemptRef::Id(attempt.attempt_id.clone())),
            ..SpanFilter::default()
        };
        let spans = store.spans().query(&filter).await.map_err(RestError::Store)?.items;
        attempts.push(AttemptPage { attempt, events: events(spans) });
    }
    Ok(Json(RolloutPage { rollout, attempts }))
}

/// The calls of an attempt at a rollout, or of its latest, in their order.
pub(super) async fn generations_of(
    store: &Store,
    name: String,
    attempt_id: Option<String>,
) -> Result<Vec<Generation>, RestError> {
    let rollout_id = store.rollouts().id_of(&name).await?;
    let Some((_, latest)) = store.rollouts().get(&rollout_id).await.map_err(RestError::Store)? else {
        return Err(RestError::NotFound(format!("Rollout not found: {rollout_id}")));
    };
    let attempt_id = attempt_id.or(latest.map(|attempt| attempt.attempt_id));
    let filter = GenerationFilter { rollout_id: Some(rollout_id), attempt_id, ..GenerationFilter::default() };
    store.generations().matching(&filter).await.map_err(RestError::Store)
}

fn events(spans: Vec<Span>) -> Vec<Event> {
    let details = CallDetails::of(&spans);
    let calls: HashSet<_> = spans.iter().map(|span| (&span.trace_id, Some(&span.span_id))).collect();
    // What is in a log record is shown with the call that it is of.
    let is_with_its_call =
        |span: &Span| CallDetails::are(span) && calls.contains(&(&span.trace_id, span.parent_id.as_ref()));
    let hidden: Vec<bool> = spans.iter().map(is_with_its_call).collect();
    let detailed: Vec<Option<Object>> = spans.iter().map(|span| details.with_attributes(span)).collect();
    let mut shown: Vec<SpanMessage> = Vec::new();
    let mut events = Vec::with_capacity(spans.len());
    for ((mut span, detailed), hidden) in spans.into_iter().zip(detailed).zip(hidden) {
        if let Some(attributes) = detailed {
            span.attributes = attributes;
        }
        if !hidden {
            events.push(event(span, &mut shown));
        }
    }
    events
}

/// `shown` are the messages of the call before, and its answer.
fn event(span: Span, shown: &mut Vec<SpanMessage>) -> Event {
    if let Some(recorded) = recorded_reward(&span) {
        return Event::Reward {
            value: recorded.reward.value,
            components: super::lists::components(&recorded.reward),
            giver: serde_json::json!(recorded.giver),
            time: recorded.time,
        };
    }
    let answer = SpanMessage::of_answers(&span.attributes);
    if answer.is_empty() {
        let Span { span_id, parent_id, name, start_time, end_time, attributes, .. } = span;
        return Event::Span { span_id, parent_span_id: parent_id, name, start_time, end_time, attributes };
    }
    let attribute = |key: &str| span.attributes.get(key).cloned();
    let messages = SpanMessage::of_prompt(&span.attributes);
    let before = messages.iter().zip(shown.iter()).take_while(|(new, old)| new.identity() == old.identity()).count();
    *shown = messages.iter().chain(&answer).cloned().collect();
    Event::Call(Box::new(Call {
        span_id: span.span_id.clone(),
        parent_span_id: span.parent_id.clone(),
        parent_id: attribute("fulgurite.continues"),
        branch_reason: attribute("fulgurite.departure.reason"),
        prompt_tokens: attribute("gen_ai.usage.input_tokens"),
        sampled_tokens: attribute("gen_ai.usage.output_tokens"),
        cached_tokens: attribute("gen_ai.usage.cache_read.input_tokens"),
        generation_id: attribute("gen_ai.response.id"),
        model: attribute("gen_ai.request.model"),
        start_time: span.start_time,
        end_time: span.end_time,
        messages: messages.into_iter().skip(before).map(shortened).collect(),
        shown_before: before,
        answer: answer.into_iter().map(shortened).collect(),
        stop: attribute("gen_ai.response.finish_reasons"),
    }))
}

/// A message as the page shows it.
fn shortened(message: SpanMessage) -> Message {
    let text: String = message.content.chars().take(MESSAGE).collect();
    let left_out = message.content.chars().count() - text.chars().count();
    Message { role: message.role, text, tool_calls: message.calls, left_out }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_opentelemetrys_current_conventions_are_shown_as_a_call() {
        let span = |id: &str, parent: Option<&str>, name: &str, attributes: Value| -> Span {
            serde_json::from_value(json!({
                "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "trace_id": "t", "span_id": id,
                "parent_id": parent, "name": name, "status": {"status_code": "OK"}, "attributes": attributes,
                "events": [], "links": [], "start_time": 1.0, "end_time": 2.0, "context": null, "parent": null,
                "resource": {"attributes": {}, "schema_url": ""},
            }))
            .unwrap()
        };
        let messages = json!({
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "ho"}]}],
        });
        let model = json!({"gen_ai.request.model": "m"});
        let event_name = "gen_ai.client.inference.operation.details";
        let mut all = messages.clone();
        all.as_object_mut().unwrap().extend(model.as_object().unwrap().clone());
        for spans in [
            vec![span("x", None, "chat m", all)],
            vec![span("x", None, "chat m", model.clone()), span("y", Some("x"), event_name, messages.clone())],
        ] {
            let events = events(spans);
            let [Event::Call(call)] = &events[..] else { panic!("{}", json!(events)) };
            assert_eq!((call.model.clone(), call.messages[0].text.as_str()), (Some(json!("m")), "hi"));
            assert_eq!(call.answer[0].text, "ho");
        }
        // The record of a call that has not come yet.
        assert!(matches!(&events(vec![span("y", Some("x"), event_name, messages)])[..], [Event::Call(_)]));
    }
}
