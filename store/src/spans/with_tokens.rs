//! The spans of a generation: what is stored of them, and what readers get.
//!
//! Agent-lightning reads proxied calls in two ways, and each call is returned once for both: its tracer's adapter looks for
//! spans named like `openai.chat.completion`, one for each `gen_ai.response.id`; its proxy's adapter looks for
//! `raw_gen_ai_request` alone, whose attributes are vLLM's fields as text.

use std::collections::HashMap;

use fulgurite_types::{Generation, GenerationFilter, Object, Span};
use serde_json::{Value, json};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::call_records::conversations::conversations;
use crate::database::sql::column;
use crate::generations::reading::{generations_of_spans, matching, rebuild};
use crate::spans::Spans;
use crate::spans::rows::span_from_row;

/// Name of the second span of a call.
const RAW_NAME: &str = "raw_gen_ai_request";

/// Where the second span names its generation.
const RAW_ID: &str = "llm.hosted_vllm.id";

/// Where every other span names it.
const RESPONSE_ID: &str = "gen_ai.response.id";

const PROMPT_TOKEN_IDS: &str = "prompt_token_ids";

const RAW_PROMPT_TOKEN_IDS: &str = "llm.hosted_vllm.prompt_token_ids";

/// Spans and, after each that is of a generation whose tokens are known, its second span. That one is not stored: its row
/// has the body of the first, and `raw_of` is the id of its generation. Its span id is the first's with the halves swapped.
pub(crate) const WITH_RAW_SPANS: &str = "(
    SELECT 2 * position AS position, rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name,
        start_time, end_time, body, NULL AS raw_of
    FROM spans
    UNION ALL
    SELECT 2 * s.position + 1, s.rollout_id, s.attempt_id, substr(s.span_id, 9) || substr(s.span_id, 1, 8),
        s.sequence_id, s.trace_id, s.span_id, 'raw_gen_ai_request', s.start_time, s.end_time, s.body, g.generation_id
    FROM generations g JOIN spans s
        ON s.rollout_id = g.rollout_id AND s.attempt_id = g.attempt_id AND s.span_id = g.span_id
    WHERE g.context_length > 0
) AS spans";

/// Generations with all that is stored of their spans.
const WITH_SPAN: &str = "SELECT g.*, s.trace_id, s.name, s.sequence_id, s.start_time, s.end_time, s.body
    FROM generations g JOIN spans s USING (rollout_id, attempt_id, span_id) WHERE 1 = 1";

impl Spans {
    /// Generations that meet a filter, in the order in which they were recorded, each with the attributes that were
    /// recorded with it: all its messages are among them, its tokens are not.
    pub async fn generations_with_attributes(&self, filter: &GenerationFilter) -> Result<Vec<(Generation, Object)>> {
        let mut connection = self.database.reader().await?;
        let rows = matching(WITH_SPAN, filter)?.all(&mut connection).await?;
        let generations = rebuild(&mut connection, &rows).await?;
        let ids: Vec<&str> = generations.iter().map(|generation| generation.generation_id.as_str()).collect();
        let conversations = conversations(&mut connection, &ids).await?;
        let attributes = rows.iter().zip(&ids).map(|(row, id)| {
            let mut attributes = span_from_row(row)?.attributes;
            if let Some(conversation) = conversations.get(*id) {
                conversation.put_back(&mut attributes);
            }
            Ok(attributes)
        });
        let attributes: Vec<Object> = attributes.collect::<Result<_>>()?;
        Ok(generations.into_iter().zip(attributes).collect())
    }
}

/// Reads a row of [`WITH_RAW_SPANS`].
pub(crate) fn wire_span_from_row(row: &AnyRow) -> Result<Span> {
    let span = span_from_row(row)?;
    Ok(match column::<Option<String>>(row, "raw_of")? {
        None => span,
        Some(generation_id) => raw_span(span, &generation_id),
    })
}

pub(crate) fn raw_span(span: Span, generation_id: &str) -> Span {
    let (first, second) = span.span_id.split_at_checked(8).unwrap_or((&span.span_id, ""));
    Span {
        span_id: format!("{second}{first}"),
        parent_id: Some(span.span_id),
        name: RAW_NAME.to_owned(),
        attributes: Object::from_iter([(RAW_ID.to_owned(), json!(generation_id))]),
        ..span
    }
}

/// Gives spans of one rollout what the generations that they are of hold: tokens and messages.
pub(crate) async fn add_tokens(connection: &mut AnyConnection, spans: &mut [Span]) -> Result<()> {
    let Some(rollout_id) = spans.first().map(|span| span.rollout_id.clone()) else { return Ok(()) };
    let span_ids: Vec<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let generations = generations_of_spans(connection, &rollout_id, &span_ids, &[]).await?;
    let mut behind: HashMap<String, Generation> = by_id(generations);
    let named: Vec<&str> = spans.iter().filter_map(named_generation).filter(|id| !behind.contains_key(*id)).collect();
    behind.extend(by_id(generations_of_spans(connection, &rollout_id, &[], &named).await?));
    let by_span: HashMap<(&str, &str), &Generation> = behind
        .values()
        .map(|generation| ((generation.attempt_id.as_str(), generation.span_id.as_str()), generation))
        .collect();
    let ids: Vec<&str> = by_span.values().map(|generation| generation.generation_id.as_str()).collect();
    let conversations = conversations(connection, &ids).await?;
    for span in spans {
        if let Some(generation) = by_span.get(&(span.attempt_id.as_str(), span.span_id.as_str())) {
            if let Some(conversation) = conversations.get(&generation.generation_id) {
                conversation.put_back(&mut span.attributes);
            }
            span.attributes.extend(token_attributes(generation));
        } else if let Some(generation) = named_generation(span).and_then(|id| behind.get(id))
            && generation.attempt_id == span.attempt_id
        {
            let raw = span.name == RAW_NAME;
            span.attributes.extend(if raw { raw_attributes(generation) } else { token_attributes(generation) });
        }
    }
    Ok(())
}

fn by_id(generations: Vec<Generation>) -> HashMap<String, Generation> {
    generations.into_iter().map(|generation| (generation.generation_id.clone(), generation)).collect()
}

/// The generation that a span names and whose tokens it lacks.
fn named_generation(span: &Span) -> Option<&str> {
    let key = if span.name == RAW_NAME { RAW_ID } else { RESPONSE_ID };
    let lacks_tokens =
        !span.attributes.contains_key(PROMPT_TOKEN_IDS) && !span.attributes.contains_key(RAW_PROMPT_TOKEN_IDS);
    span.attributes.get(key).and_then(Value::as_str).filter(|_| lacks_tokens)
}

/// The attributes of a generation that readers of spans expect: token ids, and logprobs as JSON text in OpenAI's shape. The
/// text of a token is not known here and is replaced by its id, as vLLM writes it.
fn token_attributes(generation: &Generation) -> Object {
    let mut attributes = Object::new();
    if generation.prompt_tokens.is_empty() && generation.sampled_tokens.is_empty() {
        // The tokens of a forwarded call are not known.
        return attributes;
    }
    attributes.insert(PROMPT_TOKEN_IDS.into(), json!(generation.prompt_tokens));
    attributes.insert("response_token_ids".into(), json!(generation.sampled_tokens));
    if let Some(logprobs) = &generation.logprobs {
        let content: Vec<_> = generation
            .sampled_tokens
            .iter()
            .zip(logprobs)
            .map(|(token, logprob)| {
                json!({"token": format!("token_id:{token}"), "logprob": logprob, "bytes": null, "top_logprobs": []})
            })
            .collect();
        attributes.insert("logprobs.content".into(), json!(json!(content).to_string()));
    }
    attributes
}

/// The tokens as the proxy's adapter reads them: Python literals, which lists of numbers and plain strings in JSON are.
fn raw_attributes(generation: &Generation) -> Object {
    let choice = json!([{
        "finish_reason": generation.stop_reason,
        "index": 0,
        "token_ids": generation.sampled_tokens,
    }]);
    [
        ("llm.hosted_vllm.model", json!(generation.model)),
        (RAW_PROMPT_TOKEN_IDS, json!(json!(generation.prompt_tokens).to_string())),
        ("llm.hosted_vllm.choices", json!(choice.to_string())),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use fulgurite_types::{AttemptRef, AttemptedRollout, NewGeneration, Page, Paginated, SpanFilter, TextFilter};

    use super::*;
    use crate::call_records::call_span::call_span;
    use crate::testing::{TestStore, generation};

    fn of(attempted: &AttemptedRollout) -> SpanFilter {
        SpanFilter {
            rollout_id: attempted.rollout.rollout_id.clone(),
            attempt: Some(AttemptRef::Latest),
            ..SpanFilter::default()
        }
    }

    async fn spans(store: &TestStore, attempted: &AttemptedRollout) -> Vec<Span> {
        store.spans().query(&of(attempted)).await.unwrap().items
    }

    async fn spans_on_the_wire(store: &TestStore, filter: &SpanFilter) -> Paginated<Span> {
        serde_json::from_str(&store.spans().query_as_json(filter).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_call_is_one_span_for_each_way_of_reading() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        for (span_id, generation) in [
            ("0123456789abcdef", generation("a", &attempted, &[1, 2], &[3])),
            ("fedcba9876543210", generation("b", &attempted, &[1, 2, 3, 4], &[5, 6])),
        ] {
            store.recording().record(NewGeneration { span_id: span_id.into(), ..generation }).await.unwrap();
        }
        assert_eq!(spans(&store, &attempted).await.len(), 2, "stored once");
        let page = spans_on_the_wire(&store, &of(&attempted)).await;
        assert_eq!((page.total, page.items.len()), (4, 4));
        let spans = page.items;
        assert_eq!(spans.iter().map(|span| span.sequence_id).collect::<Vec<_>>(), [1, 1, 2, 2]);
        let ids: HashSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
        assert_eq!(ids.len(), 4);

        let (traced, raw) = (&spans[2], &spans[3]);
        assert_eq!(traced.name, "openai.chat.completion");
        assert_eq!(traced.attributes["gen_ai.response.id"], "b");
        assert_eq!(traced.attributes["prompt_token_ids"], json!([1, 2, 3, 4]));
        assert_eq!(traced.attributes["response_token_ids"], json!([5, 6]));
        let content: Value = serde_json::from_str(traced.attributes["logprobs.content"].as_str().unwrap()).unwrap();
        assert_eq!(content[1]["logprob"].as_f64().unwrap() as f32, -0.1 * 6.0);

        assert_eq!((raw.name.as_str(), &raw.parent_id), ("raw_gen_ai_request", &Some(traced.span_id.clone())));
        assert_eq!(raw.trace_id, traced.trace_id);
        let expected = json!({
            "llm.hosted_vllm.id": "b",
            "llm.hosted_vllm.model": "tiny",
            "llm.hosted_vllm.prompt_token_ids": "[1,2,3,4]",
            "llm.hosted_vllm.choices": r#"[{"finish_reason":"stop_token","index":0,"token_ids":[5,6]}]"#,
        });
        // Nothing by which the tracer's adapter, or one that collects messages, would count it again.
        assert_eq!(json!(raw.attributes), expected);

        let name = TextFilter { equals: Some(RAW_NAME.to_owned()), contains: None };
        let page = Page { limit: Some(1), offset: 1, ..Page::default() };
        let second = spans_on_the_wire(&store, &SpanFilter { name, page, ..of(&attempted) }).await;
        assert_eq!((second.total, &second.items[..]), (2, &spans[3..]));
    }

    #[tokio::test]
    async fn a_generation_is_read_with_the_attributes_that_were_recorded_with_it() {
        let store = TestStore::new().await;
        let (attempted, other) = (store.start().await, store.start().await);
        let first = json!({
            "gen_ai.request.model": "tiny",
            "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "2 + 2?",
            "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "4",
        });
        let mut second = first.clone();
        second["gen_ai.prompt.1.role"] = json!("assistant");
        second["gen_ai.prompt.1.content"] = json!("4");
        let without_messages = json!({ "gen_ai.request.model": "tiny" });
        let calls = [("a", &attempted, &first), ("b", &other, &first), ("c", &attempted, &second)];
        for (index, (id, attempted, attributes)) in
            calls.into_iter().chain([("d", &attempted, &without_messages)]).enumerate()
        {
            let attributes = attributes.as_object().cloned().unwrap();
            let call = generation(id, attempted, &[1, 2][..=index % 2], &[3]);
            store.recording().record(NewGeneration { attributes, ..call }).await.unwrap();
        }
        let filter = GenerationFilter {
            rollout_id: Some(attempted.rollout.rollout_id.clone()),
            attempt_id: Some(attempted.attempt.attempt_id.clone()),
            ..GenerationFilter::default()
        };
        let (generations, attributes): (Vec<_>, Vec<_>) =
            store.spans().generations_with_attributes(&filter).await.unwrap().into_iter().unzip();
        assert_eq!(generations, store.generations().matching(&filter).await.unwrap());
        assert_eq!(json!(attributes), json!([first, second, without_messages]));
        // One alone, whose messages are partly with an earlier one.
        let filter = GenerationFilter { generation_id: Some("c".to_owned()), ..GenerationFilter::default() };
        let (_, attributes) = store.spans().generations_with_attributes(&filter).await.unwrap().pop().unwrap();
        assert_eq!(json!(attributes), second);
    }

    #[tokio::test]
    async fn a_tracers_own_span_of_a_call_gets_the_tokens_that_it_lacks() {
        let store = TestStore::new().await;
        let (attempted, other) = (store.start().await, store.start().await);
        store.recording().record(generation("a", &attempted, &[1, 2], &[3])).await.unwrap();
        let call = generation("a", &attempted, &[1, 2], &[3]);
        let recorded = call_span(&call, call.attributes.clone(), 7);
        let own = |attempted: &AttemptedRollout, id: &str, attributes: Value| Span {
            rollout_id: attempted.rollout.rollout_id.clone(),
            attempt_id: attempted.attempt.attempt_id.clone(),
            span_id: id.to_owned(),
            attributes: attributes.as_object().cloned().unwrap(),
            ..recorded.clone()
        };
        let named = json!({"gen_ai.response.id": "a"});
        let whole = json!({"gen_ai.response.id": "a", "prompt_token_ids": [9], "response_token_ids": [9]});
        store
            .spans()
            .add(vec![
                own(&attempted, "streamed", named.clone()),
                own(&attempted, "whole", whole.clone()),
                own(&other, "of-another-rollout", named.clone()),
            ])
            .await
            .unwrap();
        let found = spans(&store, &attempted).await;
        let of = |id: &str| json!(found.iter().find(|span| span.span_id == id).unwrap().attributes);
        assert_eq!(of("streamed")["prompt_token_ids"], json!([1, 2]));
        assert_eq!(of("streamed")["response_token_ids"], json!([3]));
        assert!(of("streamed")["logprobs.content"].is_string());
        assert_eq!(of("whole"), whole);
        assert_eq!(json!(spans(&store, &other).await[0].attributes), named);
    }
}
