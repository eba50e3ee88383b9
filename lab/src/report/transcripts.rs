//! Rollouts as people read them.

use anyhow::Result;
use fulgurite_store::{SpanMessage, Store, recorded_reward};
use fulgurite_types::{AttemptRef, Object, Rollout, Run, Span, SpanFilter};
use serde::Serialize;
use serde_json::{Value, json};

/// A rollout's conversation.
#[derive(Serialize)]
pub(super) struct Transcript {
    rollout_id: String,
    pub(super) reward: f64,
    /// The task first.
    messages: Vec<TranscriptMessage>,
}

/// What somebody wrote, with the tools that they called.
#[derive(Serialize)]
struct TranscriptMessage {
    role: String,
    content: String,
}

/// A rollout's transcript, if it was rewarded.
pub(super) async fn transcript_of(store: &Store, run: &Run, rollout: &Rollout) -> Result<Option<Transcript>> {
    let attempt = Some(AttemptRef::Latest);
    let filter = SpanFilter { rollout_id: rollout.rollout_id.clone(), attempt, ..SpanFilter::default() };
    Ok(transcript(rollout, &store.spans().query(&filter).await?.items, &other_models(run)))
}

/// The models that are served beside the one that a run trains or scores.
fn other_models(run: &Run) -> Vec<&str> {
    let rubric = &run.config["runner"]["rubric"];
    let untrained = run.config["models"].as_array().into_iter().flatten().filter(|model| model["trained"] == false);
    let names = untrained.map(|model| &model["name"]).chain([&rubric["judge"], &rubric["second"]["judge"]]);
    names.filter_map(Value::as_str).collect()
}

/// What was said last; nothing of a rollout that called no model.
pub(super) fn last_message(transcript: &Transcript) -> String {
    let last = transcript.messages.iter().skip(1).last();
    last.map(|message| message.content.clone()).unwrap_or_default()
}

/// The conversation of an attempt's last call of the policy, and what the attempt earned.
fn transcript(rollout: &Rollout, spans: &[Span], other_models: &[&str]) -> Option<Transcript> {
    let rewards: Vec<_> = spans.iter().rev().filter_map(recorded_reward).collect();
    let reward = rewards.iter().find(|reward| reward.generation_id.is_none())?.reward.value;
    let mut messages = vec![TranscriptMessage { role: "task".to_owned(), content: text(&rollout.input) }];
    let is_of_policy = |span: &Span| {
        let model = span.attributes.get("gen_ai.request.model").and_then(Value::as_str);
        model.is_none_or(|model| !other_models.contains(&model))
    };
    let mut calls = spans.iter().rev().filter(|span| span.attributes.contains_key("gen_ai.completion.0.role"));
    let call = calls.find(|span| is_of_policy(span));
    for SpanMessage { role, content, calls } in call.into_iter().flat_map(|call| messages_of(&call.attributes)) {
        let called = calls.into_iter().map(|(name, arguments)| format!("{name}({arguments})"));
        let lines: Vec<String> =
            Some(content).filter(|content| !content.is_empty()).into_iter().chain(called).collect();
        messages.push(TranscriptMessage { role, content: lines.join("\n") });
    }
    Some(Transcript { rollout_id: rollout.rollout_id.clone(), reward, messages })
}

/// A call's messages, and what was answered.
fn messages_of(attributes: &Object) -> Vec<SpanMessage> {
    [SpanMessage::of_prompt(attributes), SpanMessage::of_answers(attributes)].concat()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| json!(value).to_string(), str::to_owned)
}
