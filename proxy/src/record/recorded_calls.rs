//! Recorded calls, read from the store with their messages.

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{GenerationFilter, exact_value};
use serde_json::{Map, Value};

use crate::attribute_names::{CACHED_TOKENS, CHOICE, IDEMPOTENCY_KEY, PLACE, REQUEST_EXTRA};
use crate::record::message_attributes::{CallMessages, messages_of};
use crate::record::recorded_call::{RecordedCall, generation_id};

/// The call with this id, if there is one.
pub(crate) async fn recorded_call(store: &Store, generation_id: &str) -> Result<Option<RecordedCall>, StoreError> {
    let filter = GenerationFilter { generation_id: Some(generation_id.to_owned()), ..GenerationFilter::default() };
    Ok(calls(store, &filter).await?.pop())
}

/// The calls of an attempt, in the order in which they were recorded.
pub(crate) async fn recorded_calls(
    store: &Store,
    rollout_id: &str,
    attempt_id: &str,
) -> Result<Vec<RecordedCall>, StoreError> {
    let filter = GenerationFilter {
        rollout_id: Some(rollout_id.to_owned()),
        attempt_id: Some(attempt_id.to_owned()),
        ..GenerationFilter::default()
    };
    calls(store, &filter).await
}

async fn calls(store: &Store, filter: &GenerationFilter) -> Result<Vec<RecordedCall>, StoreError> {
    let found = store.spans().generations_with_attributes(filter).await?.into_iter();
    found
        .map(|(generation, attributes)| {
            let CallMessages { messages, tools, reply } = messages_of(&attributes)?;
            let request_extra = request_extra(&attributes)?;
            let count = |key: &str| attributes.get(key).and_then(Value::as_u64).unwrap_or_default();
            let usage = (count("gen_ai.usage.input_tokens"), count("gen_ai.usage.output_tokens"));
            let cached_tokens = count(CACHED_TOKENS);
            let choice = attributes.get(CHOICE).and_then(Value::as_u64).unwrap_or_default();
            let idempotency_key = attributes.get(IDEMPOTENCY_KEY).and_then(Value::as_str).map(str::to_owned);
            let place = attributes.into_iter().filter(|(key, _)| PLACE.iter().any(|place| key.starts_with(place)));
            let place = place.collect();
            Ok(RecordedCall {
                generation,
                messages,
                tools,
                reply,
                usage,
                cached_tokens,
                request_extra,
                choice,
                idempotency_key,
                place,
            })
        })
        .collect()
}

fn request_extra(attributes: &Map<String, Value>) -> Result<Map<String, Value>, StoreError> {
    let text = attributes.get(REQUEST_EXTRA).and_then(Value::as_str);
    let read = text.map(|text| exact_value(text).and_then(serde_json::from_value)).transpose();
    let corrupt =
        |error: serde_json::Error| StoreError::Corrupt { column: REQUEST_EXTRA.to_owned(), message: error.to_string() };
    Ok(read.map_err(corrupt)?.unwrap_or_default())
}

/// What is recorded of the answers to a request.
pub(crate) async fn earlier_answers(
    store: &Store,
    reply_id: &str,
    choices: usize,
) -> Result<Vec<Option<RecordedCall>>, StoreError> {
    let mut earlier = Vec::with_capacity(choices);
    for choice in 0..choices {
        earlier.push(recorded_call(store, &generation_id(reply_id, choice)).await?);
    }
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use fulgurite_store::StoreOptions;
    use fulgurite_types::{AttemptedRollout, Message, NewGeneration, NewRollout, RecordedSampling, StopReason};
    use serde_json::json;

    use super::*;
    use crate::record::message_attributes::{ANSWER, add_message, add_messages, add_tools};

    async fn record(store: &Store, attempted: &AttemptedRollout, id: &str, call: &CallMessages) {
        let mut attributes = json!({ "gen_ai.request.model": "tiny" }).as_object().cloned().unwrap();
        add_messages(&mut attributes, &call.messages);
        add_tools(&mut attributes, &call.tools);
        if let Some(reply) = &call.reply {
            add_message(&mut attributes, ANSWER, reply);
        }
        let generation = NewGeneration {
            generation_id: id.to_owned(),
            rollout_id: attempted.rollout.rollout_id.clone(),
            attempt_id: attempted.attempt.attempt_id.clone(),
            name: "openai.chat.completion".to_owned(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            span_id: format!("span-{id}"),
            start_time: 1.0,
            end_time: 2.0,
            attributes,
            model: "tiny".to_owned(),
            prompt_tokens: vec![1, 2],
            sampled_tokens: vec![3],
            logprobs: None,
            stop_reason: StopReason::Stop,
            weights_versions: Vec::new(),
            sampling: RecordedSampling::default(),
            seed: 0,
            renderer: "chatml".to_owned(),
            tokenizer: "sha256:0".to_owned(),
            request_digest: "d".to_owned(),
            branch_reason: None,
            client_disconnected: false,
            defect: None,
        };
        store.recording().record(generation).await.unwrap();
    }

    #[tokio::test]
    async fn calls_are_read_as_they_were_made_and_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let attempted = store.rollouts().start(NewRollout::default(), None).await.unwrap();
        let other = store.rollouts().start(NewRollout::default(), None).await.unwrap();
        let call = json!({ "role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } },
        ] });
        let reply: Message = serde_json::from_value(call).unwrap();
        let first = CallMessages {
            messages: vec![Message::text("user", "2 + 2?")],
            tools: vec![json!({ "type": "function", "function": { "name": "f", "strict": true } })],
            reply: Some(reply.clone()),
        };
        let result = Message { tool_call_id: Some("c1".to_owned()), ..Message::text("tool", "4") };
        let second = CallMessages {
            messages: [first.messages.clone(), vec![reply, result]].concat(),
            tools: first.tools.clone(),
            reply: Some(Message::text("assistant", "4")),
        };
        let as_text = CallMessages { reply: Some(Message::text("assistant", "on")), ..CallMessages::default() };
        let calls = [("b", &first), ("a", &second), ("c", &as_text)];
        for (id, call) in calls {
            record(&store, &attempted, id, call).await;
        }
        record(&store, &other, "d", &first).await;

        let (rollout_id, attempt_id) = (&attempted.rollout.rollout_id, &attempted.attempt.attempt_id);
        let read = recorded_calls(&store, rollout_id, attempt_id).await.unwrap();
        let read: Vec<(String, CallMessages)> = read
            .into_iter()
            .map(|RecordedCall { generation, messages, tools, reply, .. }| {
                (generation.generation_id, CallMessages { messages, tools, reply })
            })
            .collect();
        assert_eq!(read, calls.map(|(id, call)| (id.to_owned(), call.clone())));
        let one = recorded_call(&store, "a").await.unwrap().unwrap();
        assert_eq!((one.generation.prompt_tokens, one.messages), (vec![1, 2], second.messages));
        assert!(recorded_call(&store, "no").await.unwrap().is_none());
        assert!(recorded_calls(&store, rollout_id, "no").await.unwrap().is_empty());
    }
}
