//! Rollouts as people read them.

use anyhow::Result;
use fulgurite_store::{Store, recorded_reward};
use fulgurite_types::{AttemptRef, Object, Rollout, Span, SpanFilter};
use serde_json::{Value, json};

use super::html::Transcript;

/// A rollout's transcript, if it was rewarded.
pub(super) async fn transcript_of(store: &Store, rollout: &Rollout) -> Result<Option<Transcript>> {
    let attempt = Some(AttemptRef::Latest);
    let filter = SpanFilter { rollout_id: rollout.rollout_id.clone(), attempt, ..SpanFilter::default() };
    Ok(transcript(rollout, &store.query_spans(&filter).await?.items))
}

/// What was said last; nothing of a rollout that called no model.
pub(super) fn last_said(transcript: &Transcript) -> String {
    let said = transcript.messages.iter().skip(1).last();
    said.map(|(_, content)| content.clone()).unwrap_or_default()
}

/// The conversation of an attempt's last call, and what the attempt earned.
fn transcript(rollout: &Rollout, spans: &[Span]) -> Option<Transcript> {
    let rewards: Vec<_> = spans.iter().rev().filter_map(recorded_reward).collect();
    let reward = rewards.iter().find(|reward| reward.generation_id.is_none())?.reward.value;
    let mut messages = vec![("task".to_owned(), text(&rollout.input))];
    let call = spans.iter().rev().find(|span| span.attributes.contains_key("gen_ai.completion.0.role"));
    for (prefix, attributes) in
        call.iter().flat_map(|call| [("gen_ai.prompt", &call.attributes), ("gen_ai.completion", &call.attributes)])
    {
        messages.extend((0..).map_while(|index| message(attributes, &format!("{prefix}.{index}"))));
    }
    Some(Transcript { rollout_id: rollout.rollout_id.clone(), reward, messages })
}

fn message(attributes: &Object, prefix: &str) -> Option<(String, String)> {
    let role = attributes.get(&format!("{prefix}.role"))?.as_str()?.to_owned();
    // Content, calls of tools and whatever else the span says of the message.
    let parts = attributes.iter().filter_map(|(key, value)| {
        let field = key.strip_prefix(prefix)?.strip_prefix('.').filter(|field| *field != "role")?;
        Some(if field == "content" { text(value) } else { format!("{field}: {}", text(value)) })
    });
    Some((role, parts.collect::<Vec<_>>().join("\n")))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| json!(value).to_string(), str::to_owned)
}
