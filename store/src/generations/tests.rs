use proptest::prelude::*;
use sqlx::Row;

use super::*;
use crate::model::{AttemptStatus, RolloutStatus};
use crate::testing::{TestStore, generation};

async fn stored_bytes(store: &Store) -> i64 {
    let row = sqlx::query(
        "SELECT CAST(COALESCE(SUM(LENGTH(prompt_tokens) + LENGTH(sampled_tokens)), 0) AS BIGINT) FROM generations",
    )
    .fetch_one(&mut *store.reader().await.unwrap())
    .await
    .unwrap();
    row.get(0)
}

#[tokio::test]
async fn a_generation_is_stored_as_what_it_adds() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let first = store.record_generation(generation("a", &attempted, &[1, 2], &[3])).await.unwrap();
    let second = store.record_generation(generation("b", &attempted, &[1, 2, 3, 4], &[5, 6])).await.unwrap();
    let branch = store.record_generation(generation("c", &attempted, &[1, 2, 9], &[5])).await.unwrap();
    assert_eq!((first.sequence_id, first.parent_id), (1, None));
    assert_eq!((second.sequence_id, second.parent_id.as_deref()), (2, Some("a")));
    assert_eq!((branch.sequence_id, branch.parent_id), (3, None));
    assert_eq!(stored_bytes(&store).await, 4 * (3 + 3 + 4));

    let (rollout, attempt) = store.get_rollout(&attempted.rollout.rollout_id).await.unwrap().unwrap();
    assert_eq!(rollout.status, RolloutStatus::Running);
    let attempt = attempt.unwrap();
    assert_eq!(attempt.status, AttemptStatus::Running);
    assert!(attempt.last_heartbeat_time.is_some());

    let filter = GenerationFilter { generation_id: Some("b".into()), ..GenerationFilter::default() };
    let found = store.generations(&filter).await.unwrap();
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
            client_gone: false,
            defect: None,
        }]
    );
}

#[tokio::test]
async fn an_answer_that_was_broken_off_is_replaced_by_the_whole_one() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let begun = NewGeneration {
        stop_reason: CLIENT_GONE.into(),
        client_gone: true,
        ..generation("a", &attempted, &[1, 2], &[3])
    };
    let first = store.record_generation(begun).await.unwrap();
    // Nobody continues what nobody has: this prompt only looks like it.
    let other = store.record_generation(generation("b", &attempted, &[1, 2, 3, 4], &[5])).await.unwrap();
    assert_eq!(other.parent_id, None);
    let whole = NewGeneration { span_id: "00000000000000aa".into(), ..generation("a", &attempted, &[1, 2], &[3, 9]) };
    let replaced = store.replace_generation(whole.clone()).await.unwrap();
    assert_eq!(replaced.sequence_id, first.sequence_id);
    let filter = GenerationFilter { generation_id: Some("a".into()), ..GenerationFilter::default() };
    let found = store.generations(&filter).await.unwrap().pop().unwrap();
    assert_eq!((found.sampled_tokens, found.client_gone), (vec![3, 9], false));
    let next = store.record_generation(generation("c", &attempted, &[1, 2, 3, 9, 4], &[5])).await.unwrap();
    assert_eq!(next.parent_id.as_deref(), Some("a"));
    assert_eq!(store.generations(&GenerationFilter::default()).await.unwrap().len(), 3);
    // A whole answer is never replaced.
    let again = store.replace_generation(whole).await.unwrap_err();
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
        assert_eq!(store.record_generation(bad).await.unwrap_err().to_string(), expected);
    }
    store.record_generation(good.clone()).await.unwrap();
    let error = store.record_generation(good).await.unwrap_err();
    assert_eq!(error.to_string(), "generation already exists: a");
    assert_eq!(store.generations(&GenerationFilter::default()).await.unwrap().len(), 1);
    assert_eq!(store.next_sequence_id(&attempted.rollout.rollout_id).await.unwrap(), 2);
}

#[tokio::test]
async fn logprobs_that_are_not_finite_are_a_defect() {
    let store = TestStore::new().await;
    let attempted = store.start().await;
    let bad =
        NewGeneration { logprobs: Some(vec![-1.0, f32::NEG_INFINITY]), ..generation("a", &attempted, &[1], &[2, 3]) };
    store.record_generation(bad).await.unwrap();
    store.set_client_gone("a", true).await.unwrap();
    let found = store.generations(&GenerationFilter::default()).await.unwrap().remove(0);
    assert_eq!((found.logprobs, found.defect.as_deref()), (None, Some("non_finite_logprobs")));
    assert!(found.client_gone);
    assert!(matches!(store.set_client_gone("b", true).await, Err(StoreError::NotFound { kind: "generation", .. })));
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
                store.record_generation(recorded).await.unwrap();
                given.push((prompt.0, sampled));
            }
            let all = store.generations(&GenerationFilter::default()).await.unwrap();
            let rebuilt: Vec<_> =
                all.iter().map(|found| (found.prompt_tokens.clone(), found.sampled_tokens.clone())).collect();
            assert_eq!(rebuilt, given);
            for found in all {
                let filter = GenerationFilter {
                    generation_id: Some(found.generation_id.clone()),
                    ..GenerationFilter::default()
                };
                assert_eq!(store.generations(&filter).await.unwrap(), [found]);
            }
            // Never more than what the turns added: what was said before is not stored again.
            assert!(stored_bytes(&store).await <= 4 * added as i64);
        });
    }
}
