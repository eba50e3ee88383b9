use fulgurite_types::{
    AttemptStatus, Defect, Generation, GenerationFilter, NewGeneration, NewRollout, Object, RecordedSampling,
    RolloutStatus, StopReason, WeightsFrom,
};
use futures::future::join_all;
use proptest::prelude::*;
use serde_json::json;
use sqlx::Row;

use crate::call_records::at_once::record_at_once;
use crate::call_records::call_record::CallRecord;
use crate::call_records::conversations::RecordedConversation;
use crate::call_records::new_call::NewCall;
use crate::database::dialect::Dialect;
use crate::recording::one_by_one::record_one_by_one;
use crate::testing::{TestStore, generation};
use crate::{Store, StoreError};

async fn stored_bytes(store: &Store) -> i64 {
    let row = sqlx::query(
        "SELECT CAST(COALESCE(SUM(LENGTH(prompt_tokens) + LENGTH(sampled_tokens)), 0) AS BIGINT) FROM generations",
    )
    .fetch_one(&mut *store.database().reader().await.unwrap())
    .await
    .unwrap();
    row.get(0)
}

/// A generation's place among the spans of its rollout, and whom it continues.
async fn place(store: &Store, generation_id: &str) -> (u64, Option<String>) {
    let filter = GenerationFilter { generation_id: Some(generation_id.to_owned()), ..GenerationFilter::default() };
    let found = store.generations().matching(&filter).await.unwrap().pop().unwrap();
    (found.sequence_id, found.parent_id)
}

#[tokio::test]
async fn a_generation_is_stored_as_what_it_adds() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    store.recording().record(generation("a", &attempted, &[1, 2], &[3])).await.unwrap();
    store.recording().record(generation("b", &attempted, &[1, 2, 3, 4], &[5, 6])).await.unwrap();
    store.recording().record(generation("c", &attempted, &[1, 2, 9], &[5])).await.unwrap();
    assert_eq!(place(&store, "a").await, (1, None));
    assert_eq!(place(&store, "b").await, (2, Some("a".to_owned())));
    assert_eq!(place(&store, "c").await, (3, None));
    assert_eq!(stored_bytes(&store).await, 4 * (3 + 3 + 4));

    let (rollout, attempt) = store.rollouts().get(&attempted.rollout.rollout_id).await.unwrap().unwrap();
    assert_eq!(rollout.status, RolloutStatus::Running);
    let attempt = attempt.unwrap();
    assert_eq!(attempt.status, AttemptStatus::Running);
    assert!(attempt.last_heartbeat_time.is_some());

    let filter = GenerationFilter { generation_id: Some("b".into()), ..GenerationFilter::default() };
    let found = store.generations().matching(&filter).await.unwrap();
    let given = generation("b", &attempted, &[1, 2, 3, 4], &[5, 6]);
    assert_eq!(
        found,
        [Generation {
            generation_id: "b".into(),
            rollout_id: given.rollout_id,
            attempt_id: given.attempt_id,
            span_id: given.span_id,
            trace_id: given.trace_id,
            name: given.name,
            sequence_id: 2,
            parent_id: Some("a".into()),
            branch_reason: None,
            start_time: 1.5,
            end_time: 2.5,
            model: "tiny".into(),
            prompt_tokens: vec![1, 2, 3, 4],
            sampled_tokens: vec![5, 6],
            logprobs: Some(vec![-0.1 * 5.0, -0.1 * 6.0]),
            stop_reason: "stop_token".into(),
            weights_versions: vec![WeightsFrom { version: 3, first_token: 0 }],
            sampling: given.sampling,
            seed: u64::MAX,
            renderer: "template".into(),
            tokenizer: "sha256:0".into(),
            request_digest: "digest-b".into(),
            client_disconnected: false,
            defect: None,
        }]
    );
}

#[tokio::test]
async fn an_answer_that_was_broken_off_is_replaced_by_the_whole_one() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let partial = NewGeneration {
        stop_reason: StopReason::ClientDisconnected,
        client_disconnected: true,
        ..generation("a", &attempted, &[1, 2], &[3])
    };
    store.recording().record(partial).await.unwrap();
    // An answer that was not delivered is not continued: this prompt only looks like it.
    store.recording().record(generation("b", &attempted, &[1, 2, 3, 4], &[5])).await.unwrap();
    assert_eq!(place(&store, "b").await, (2, None));
    let whole = NewGeneration { span_id: "00000000000000aa".into(), ..generation("a", &attempted, &[1, 2], &[3, 9]) };
    store.recording().replace(whole.clone()).await.unwrap();
    assert_eq!(place(&store, "a").await, (1, None));
    let filter = GenerationFilter { generation_id: Some("a".into()), ..GenerationFilter::default() };
    let found = store.generations().matching(&filter).await.unwrap().pop().unwrap();
    assert_eq!((found.sampled_tokens, found.client_disconnected), (vec![3, 9], false));
    store.recording().record(generation("c", &attempted, &[1, 2, 3, 9, 4], &[5])).await.unwrap();
    assert_eq!(place(&store, "c").await, (3, Some("a".to_owned())));
    assert_eq!(store.generations().matching(&GenerationFilter::default()).await.unwrap().len(), 3);
    // A whole answer is never replaced.
    let again = store.recording().replace(whole).await.unwrap_err();
    assert!(matches!(again, StoreError::NotFound { kind: "generation", .. }));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let good = generation("a", &attempted, &[1], &[2, 3]);
    let unknown_rollout = NewGeneration { rollout_id: "ro-no".into(), ..good.clone() };
    let unknown_attempt = NewGeneration { attempt_id: "at-no".into(), ..good.clone() };
    let short_logprobs = NewGeneration { logprobs: Some(vec![0.0]), ..good.clone() };
    let late_weights =
        NewGeneration { weights_versions: vec![WeightsFrom { version: 0, first_token: 1 }], ..good.clone() };
    for (bad, expected) in [
        (unknown_rollout, "rollout not found: ro-no"),
        (unknown_attempt, "attempt not found: at-no"),
        (short_logprobs, "logprobs: has 1 entries for 2 sampled tokens"),
        (late_weights, "weights_versions: must begin at token 0, increase, and stay below the 2 sampled tokens"),
    ] {
        assert_eq!(store.recording().record(bad).await.unwrap_err().to_string(), expected);
    }
    store.recording().record(good.clone()).await.unwrap();
    let error = store.recording().record(good).await.unwrap_err();
    assert_eq!(error.to_string(), "generation already exists: a");
    assert_eq!(store.generations().matching(&GenerationFilter::default()).await.unwrap().len(), 1);
    assert_eq!(store.spans().next_sequence_id(&attempted.rollout.rollout_id).await.unwrap(), 2);
}

#[tokio::test]
async fn logprobs_that_are_not_finite_are_a_defect() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let bad =
        NewGeneration { logprobs: Some(vec![-1.0, f32::NEG_INFINITY]), ..generation("a", &attempted, &[1], &[2, 3]) };
    store.recording().record(bad).await.unwrap();
    store.recording().set_client_disconnected("a", true).await.unwrap();
    let found = store.generations().matching(&GenerationFilter::default()).await.unwrap().remove(0);
    assert_eq!((found.logprobs, found.defect), (None, Some(Defect::NonFiniteLogprobs)));
    assert!(found.client_disconnected);
    assert!(matches!(
        store.recording().set_client_disconnected("b", true).await,
        Err(StoreError::NotFound { kind: "generation", .. })
    ));
}

/// A turn continues an earlier generation (by its index) or starts afresh, adds tokens, and samples some.
fn turns() -> impl Strategy<Value = Vec<(Option<prop::sample::Index>, Vec<u32>, Vec<u32>)>> {
    // Few different tokens, so that unrelated conversations share beginnings by chance.
    let tokens = || prop::collection::vec(0..3_u32, 0..5);
    prop::collection::vec((any::<Option<prop::sample::Index>>(), tokens(), tokens()), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    #[test]
    fn every_conversation_rebuilds_exactly(turns in turns()) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = TestStore::new().await;
            let attempted = store.start().await;
            let mut given: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
            let mut added = 0;
            for (number, (earlier, new, sampled)) in turns.into_iter().enumerate() {
                let mut prompt = match earlier {
                    Some(index) if !given.is_empty() => index.get(&given).clone(),
                    _ => (Vec::new(), Vec::new()),
                };
                prompt.0.append(&mut prompt.1);
                prompt.0.extend(&new);
                added += new.len() + sampled.len();
                let recorded = generation(&number.to_string(), &attempted, &prompt.0, &sampled);
                store.recording().record(recorded).await.unwrap();
                given.push((prompt.0, sampled));
            }
            let all = store.generations().matching(&GenerationFilter::default()).await.unwrap();
            let rebuilt: Vec<_> =
                all.iter().map(|found| (found.prompt_tokens.clone(), found.sampled_tokens.clone())).collect();
            assert_eq!(rebuilt, given);
            for found in all {
                let filter = GenerationFilter {
                    generation_id: Some(found.generation_id.clone()),
                    ..GenerationFilter::default()
                };
                assert_eq!(store.generations().matching(&filter).await.unwrap(), [found]);
            }
            // Never more than what the turns added: earlier messages are not stored again.
            assert!(stored_bytes(&store).await <= 4 * added as i64);
        });
    }
}

/// A call of one of three attempts, as an earlier call of the same attempt and what is new make it.
#[derive(Clone, Debug)]
struct Turn {
    attempt: usize,
    /// Counted from the latest.
    earlier: Option<usize>,
    new: Vec<u32>,
    sampled: Vec<u32>,
    has_messages: bool,
    is_left: bool,
    /// Whether it is recorded together with the next one.
    waits: bool,
}

fn calls() -> impl Strategy<Value = Vec<Turn>> {
    let tokens = || prop::collection::vec(0..2_u32, 0..3);
    let turn =
        (0..3_usize, prop::option::weighted(0.7, 0..4_usize), tokens(), tokens(), 0..8_u8, 0..8_u8, any::<bool>())
            .prop_map(|(attempt, earlier, new, sampled, text, left, waits)| Turn {
                attempt,
                earlier,
                new,
                sampled,
                has_messages: text > 0,
                is_left: left == 0,
                waits,
            });
    prop::collection::vec(turn, 1..16)
}

const ATTEMPTS: [(&str, &str); 3] = [("ro-0", "at-0"), ("ro-0", "at-1"), ("ro-1", "at-0")];

/// The calls that such turns make. Every new token is a message too, and what is sampled is the answer.
fn generations(turns: &[Turn]) -> Vec<NewGeneration> {
    let mut contexts: [Vec<(Vec<u32>, Vec<Object>)>; 3] = Default::default();
    let message = |role: &str, content: String| json!({ "role": role, "content": content }).as_object().cloned();
    let mut generations = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        let before = &mut contexts[turn.attempt];
        let (mut prompt, mut messages) = match turn.earlier {
            Some(earlier) if !before.is_empty() => before[before.len() - 1 - earlier % before.len()].clone(),
            _ => Default::default(),
        };
        prompt.extend(&turn.new);
        messages.extend(turn.new.iter().filter_map(|token| message("user", token.to_string())));
        let answer = message("assistant", format!("{:?}", turn.sampled)).unwrap();
        let mut attributes = json!({ "gen_ai.request.model": "m" }).as_object().cloned().unwrap();
        if turn.has_messages {
            let conversation = RecordedConversation::new(messages.clone(), Object::new()).unwrap_or_default();
            conversation.with_answer(answer.clone()).put_back(&mut attributes);
        }
        let (rollout_id, attempt_id) = ATTEMPTS[turn.attempt];
        generations.push(NewGeneration {
            generation_id: format!("g{number}"),
            rollout_id: rollout_id.to_owned(),
            attempt_id: attempt_id.to_owned(),
            name: "openai.chat.completion".into(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            span_id: format!("{number:016x}"),
            start_time: 1.5,
            end_time: 2.5,
            attributes,
            model: "tiny".into(),
            prompt_tokens: prompt.clone(),
            sampled_tokens: turn.sampled.clone(),
            logprobs: (number % 3 > 0).then(|| vec![-0.5; turn.sampled.len()]),
            stop_reason: if turn.is_left { StopReason::ClientDisconnected } else { "stop".into() },
            weights_versions: Vec::new(),
            sampling: RecordedSampling(json!({"temperature": 1.0})),
            seed: u64::MAX - number as u64,
            renderer: "template".into(),
            tokenizer: "sha256:0".into(),
            request_digest: "d".into(),
            branch_reason: None,
            client_disconnected: turn.is_left,
            defect: None,
        });
        prompt.extend(&turn.sampled);
        messages.push(answer);
        before.push((prompt, messages));
    }
    generations
}

async fn with_attempts() -> TestStore {
    let store = TestStore::new().await;
    let rollout = |id: &str| NewRollout { rollout_id: Some(id.to_owned()), ..NewRollout::default() };
    store.rollouts().enqueue(vec![rollout("ro-0"), rollout("ro-1")]).await.unwrap();
    for (rollout_id, attempt_id) in ATTEMPTS {
        store.attempts().open(rollout_id, attempt_id).await.unwrap();
    }
    store
}

/// Everything that recording changes, but for times.
async fn rows(store: &Store) -> Vec<crate::SqlRows> {
    let mut rows = Vec::new();
    for query in [
        "SELECT position, rollout_id, input, end_time IS NULL AS open, mode, resources_id, status, config, metadata,
             run_id, step, queue_position
         FROM rollouts ORDER BY rollout_id",
        "SELECT rollout_id, attempt_id, sequence_id, status, end_time IS NULL AS open, worker_id,
             last_heartbeat_time IS NULL AS unheard, metadata, span_count, generation_count, digest
         FROM attempts ORDER BY rollout_id, attempt_id",
        "SELECT * FROM completions ORDER BY position",
        "SELECT * FROM sequence_counters ORDER BY rollout_id",
        "SELECT * FROM spans ORDER BY position",
        "SELECT * FROM generations ORDER BY position",
    ] {
        rows.push(store.queries().query_sql(query).await.unwrap());
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    #[test]
    fn calls_that_are_recorded_at_once_leave_the_same_rows_as_one_by_one(turns in calls()) {
        // On one thread, so that those that are sent together are written together.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (at_once, one_by_one) = (with_attempts().await, with_attempts().await);
            let generations = generations(&turns);
            for generation in generations.clone() {
                let server_id = at_once.database().server_id();
                let call = CallRecord::new(generation, &[]).unwrap().by_server(server_id);
                let record = one_by_one
                    .database().write(move |write| Box::pin(async move { record_one_by_one(write, &call).await }));
                record.await.unwrap();
            }
            let (mut waiting, mut recorded) = (Vec::new(), Vec::new());
            for (generation, turn) in generations.into_iter().zip(&turns) {
                waiting.push(at_once.recording().record(generation));
                if !turn.waits {
                    recorded.extend(join_all(std::mem::take(&mut waiting)).await);
                }
            }
            recorded.extend(join_all(waiting).await);
            recorded.into_iter().for_each(Result::unwrap);
            assert_eq!(rows(&at_once).await, rows(&one_by_one).await);
        });
    }
}

#[tokio::test]
async fn a_conversation_is_recorded_in_one_statement_a_call() {
    let store = with_attempts().await;
    if Dialect::of(&store.database().reader().await.unwrap()) != Dialect::Sqlite {
        return;
    }
    let turn = |_| Turn {
        attempt: 0,
        earlier: Some(0),
        new: vec![1, 2],
        sampled: vec![1],
        has_messages: true,
        is_left: false,
        waits: false,
    };
    let mut earlier = Vec::new();
    for (number, generation) in generations(&(0..8).map(turn).collect::<Vec<_>>()).into_iter().enumerate() {
        let call = CallRecord::new(generation, &earlier).unwrap();
        earlier.extend(call.continuable());
        let record =
            store.database().write(|write| Box::pin(async move { record_at_once(write.connection(), &[&call]).await }));
        assert!(record.await.unwrap(), "it is as it is supposed to be");
        let parent_id = number.checked_sub(1).map(|parent| format!("g{parent}"));
        assert_eq!(place(&store, &format!("g{number}")).await, (number as u64 + 1, parent_id));
    }
    // Nothing is recorded where the guess is out of date.
    let mut outdated = generations(&(0..9).map(turn).collect::<Vec<_>>()).pop().unwrap();
    outdated.generation_id = "outdated".into();
    let call = CallRecord::new(outdated, &earlier[..7]).unwrap();
    let record =
        store.database().write(|write| Box::pin(async move { record_at_once(write.connection(), &[&call]).await }));
    assert!(!record.await.unwrap());
    assert_eq!(store.queries().statistics().await.unwrap().spans, 8);
}

#[tokio::test]
async fn calls_beside_each_other_are_recorded_in_one_statement_each() {
    let store = with_attempts().await;
    if Dialect::of(&store.database().reader().await.unwrap()) != Dialect::Sqlite {
        return;
    }
    let turn = |number: u32| Turn {
        attempt: 0,
        earlier: None,
        new: vec![1, 10 + number],
        sampled: vec![1],
        has_messages: true,
        is_left: false,
        waits: false,
    };
    for (number, generation) in generations(&(0..4).map(turn).collect::<Vec<_>>()).into_iter().enumerate() {
        // As if the others had been forgotten.
        let call = CallRecord::new(generation, &[]).unwrap();
        let record =
            store.database().write(|write| Box::pin(async move { record_at_once(write.connection(), &[&call]).await }));
        assert!(record.await.unwrap(), "they have as many messages, and others");
        assert_eq!(place(&store, &format!("g{number}")).await, (number as u64 + 1, None));
    }
    // The same messages again are those of the first.
    let mut again = generations(&[turn(0)]).pop().unwrap();
    again.generation_id = "again".into();
    let call = CallRecord::new(again, &[]).unwrap();
    let record =
        store.database().write(|write| Box::pin(async move { record_at_once(write.connection(), &[&call]).await }));
    assert!(!record.await.unwrap());
}

#[tokio::test]
async fn a_session_is_recorded_in_one_commit_with_the_same_rows_as_one_by_one() {
    let (at_once, one_by_one) = (with_attempts().await, with_attempts().await);
    let turn = Turn {
        attempt: 0,
        earlier: None,
        new: vec![1],
        sampled: vec![2],
        has_messages: true,
        is_left: false,
        waits: false,
    };
    let call = |number: usize| {
        let generation = generations(&vec![turn.clone(); number + 1]).pop().unwrap();
        let generation = NewGeneration { rollout_id: format!("ro-s{number}"), ..generation };
        CallRecord::alone(generation).unwrap()
    };
    for store in [&at_once, &one_by_one] {
        store.resources().update(Some("rs-1"), Object::new()).await.unwrap();
    }
    let commits = at_once.commits();
    let mut finished = at_once.database().signals().finished.subscribe();
    at_once.database().writer().unwrap().join(call(0)).await.unwrap();
    assert_eq!(at_once.commits(), commits + 1);
    assert!(finished.has_changed().unwrap());
    finished.mark_unchanged();
    // Beside another write.
    let other = at_once.spans().next_sequence_id("ro-1");
    let (other, second) = futures::join!(other, at_once.database().writer().unwrap().join(call(1)));
    second.unwrap();
    assert_eq!((other.unwrap(), place(&at_once, "g1").await), (1, (1, None)));
    assert!(finished.has_changed().unwrap());
    one_by_one.spans().next_sequence_id("ro-1").await.unwrap();
    for number in 0..2 {
        let call = call(number);
        one_by_one
            .database()
            .write(move |write| Box::pin(async move { record_one_by_one(write, &call).await }))
            .await
            .unwrap();
    }
    assert_eq!(rows(&at_once).await, rows(&one_by_one).await);
    let generation = generations(&[turn]).pop().unwrap();
    at_once
        .recording()
        .record_session(NewGeneration {
            generation_id: "alone".into(),
            rollout_id: "ro-alone".into(),
            attempt_id: "at-alone".into(),
            ..generation
        })
        .await
        .unwrap();
    assert_eq!(place(&at_once, "alone").await, (1, None));
    assert_eq!(at_once.queries().statistics().await.unwrap().rollouts, 5);
}

#[test]
fn a_conversation_that_is_given_leaves_the_same_record_as_its_attributes() {
    let object = |value: serde_json::Value| value.as_object().cloned().unwrap();
    let messages =
        vec![object(json!({ "role": "system", "content": "s" })), object(json!({ "role": "user", "content": "u" }))];
    let tools = object(json!({
        "fulgurite.request.ignored_tools": "[{\"type\":\"web_search\"}]",
        "gen_ai.request.functions.0.name": "sum",
    }));
    let answer = object(json!({ "role": "assistant", "tool_calls.0.name": "sum" }));
    let mut attributes = object(json!({ "gen_ai.request.model": "m" }));
    for (index, message) in messages.iter().enumerate() {
        attributes.extend(message.iter().map(|(part, value)| (format!("gen_ai.prompt.{index}.{part}"), value.clone())));
    }
    attributes.extend(tools.clone());
    attributes.insert("gen_ai.completion.0.finish_reason".to_owned(), json!("tool_calls"));
    attributes.extend(answer.iter().map(|(part, value)| (format!("gen_ai.completion.0.{part}"), value.clone())));
    let others = object(json!({
        "gen_ai.request.model": "m", "gen_ai.completion.0.finish_reason": "tool_calls",
    }));
    let turn = Turn {
        attempt: 0,
        earlier: None,
        new: vec![1],
        sampled: vec![2],
        has_messages: false,
        is_left: false,
        waits: false,
    };
    let new = |attributes: Object| NewGeneration { attributes, ..generations(std::slice::from_ref(&turn)).remove(0) };
    let found = CallRecord::new(new(attributes), &[]).unwrap();
    let conversation = RecordedConversation::new(messages, tools).map(|given| given.with_answer(answer));
    let given =
        CallRecord::new(NewCall { generation: new(others), conversation, conversation_digest: None }, &[]).unwrap();
    let (written, expected) = (given.conversation.as_ref().unwrap(), found.conversation.as_ref().unwrap());
    assert_eq!(
        (written.hash(), written.whole(), &written.answer),
        (expected.hash(), expected.whole(), &expected.answer)
    );
    assert_eq!(given.body.at(7), found.body.at(7));
    assert_eq!(given.checksum(0).unwrap(), found.checksum(0).unwrap());
}

#[test]
fn a_call_without_messages_keeps_its_attributes() {
    assert_eq!(RecordedConversation::new(Vec::new(), Object::new()), None);
}
