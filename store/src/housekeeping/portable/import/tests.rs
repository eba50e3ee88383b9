use fulgurite_types::{
    ArchiveScope, AttemptStatus, AttemptUpdate, AttemptedRollout, CheckpointRecord, GenerationFilter, GenerationUse,
    ListFilter, NewGatewayRollout, NewRollout, NewRun, Page, Part, Reward, RolloutFilter, RolloutMode, SpanFilter,
    StepRecord, TeacherLogprobs, TextFilter, WorkerFilter,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Store;
use crate::testing::{TestStore, cases, generation};

async fn archive(store: &Store) -> Vec<ArchiveRecord> {
    let mut export = store.housekeeping().export(ArchiveScope::All, ListFilter::default()).await.unwrap();
    let mut records = Vec::new();
    loop {
        let next = export.next().await.unwrap();
        if next.is_empty() {
            return records;
        }
        // As a file has them.
        records.extend(
            next.iter().map(|record| serde_json::from_str::<ArchiveRecord>(&json!(record).to_string()).unwrap()),
        );
    }
}

/// Everything that a store can be queried for.
async fn everything(store: &Store) -> Vec<Value> {
    let rollouts = store.rollouts().query(&RolloutFilter::default()).await.unwrap();
    let every = Part::Newest { limit: None, sort_by: None };
    let filter = ListFilter::default();
    let mut all = vec![json!(rollouts)];
    for (rollout, _) in &rollouts.items {
        let spans = SpanFilter { rollout_id: rollout.rollout_id.clone(), ..SpanFilter::default() };
        all.push(json!(store.spans().query(&spans).await.unwrap()));
        all.push(json!(store.attempts().of_rollout(&rollout.rollout_id).await.unwrap()));
        all.push(json!(format!("{:?}", store.gateway_rollouts().get(&rollout.rollout_id).await.unwrap())));
    }
    all.push(json!(store.generations().matching(&GenerationFilter::default()).await.unwrap()));
    all.push(json!(store.queries().list_spans(&filter, &every).await.unwrap().items));
    all.push(json!(store.workers().query(&WorkerFilter::default()).await.unwrap()));
    all.push(json!(store.resources().query(&TextFilter::default(), &Page::default()).await.unwrap()));
    for run in store.runs().all().await.unwrap() {
        all.push(json!(run));
        all.push(json!(store.runs().steps(&run.run_id).await.unwrap()));
        all.push(json!(store.runs().checkpoints(&run.run_id).await.unwrap()));
        all.push(json!(store.runs().token_ledger(&run.run_id).await.unwrap()));
    }
    let ids = ["g0", "g1", "g2", "g3"];
    all.push(json!(store.runs().teacher_logprobs(&ids).await.unwrap()));
    let counters = "SELECT rollout_id, value FROM sequence_counters WHERE value > 0 ORDER BY 1";
    let queue = "SELECT rollout_id, queue_position FROM rollouts WHERE queue_position IS NOT NULL ORDER BY 2";
    let done = "SELECT rollout_id, position FROM completions ORDER BY 2";
    for sql in [counters, queue, done] {
        all.push(json!(format!("{:?}", store.queries().query_sql(sql).await.unwrap())));
    }
    all
}

/// A call of the full store: with a message more than the one before, and logprobs of each kind.
fn archived_call(index: usize, attempted: &AttemptedRollout, prompt: &[u32]) -> NewGeneration {
    let mut new = generation(&format!("g{index}"), attempted, prompt, &[100, u32::MAX]);
    for message in 0..=index {
        new.attributes.insert(format!("gen_ai.prompt.{message}.role"), json!("user"));
        new.attributes.insert(format!("gen_ai.prompt.{message}.content"), json!(format!("message {message}")));
    }
    new.logprobs = match index {
        1 => None,
        3 => Some(vec![f32::NAN, 0.0]),
        _ => Some(vec![-0.1, -1e-45]),
    };
    new
}

fn gateway_rollout() -> NewGatewayRollout {
    NewGatewayRollout {
        rollout_id: Some("w".into()),
        input: json!({"t": 1}),
        mode: RolloutMode::Val,
        timeout_seconds: 5.0,
        local: Some(json!({"command": "x"})),
        k8s: None,
        metadata: Object::new(),
    }
}

/// A store with something in every table.
async fn full_store() -> TestStore {
    let store = TestStore::new().await;
    let run = |run_id: &str| NewRun {
        run_id: run_id.into(),
        name: "ä".into(),
        config: json!({"a": [1, null]}),
        seed: u64::MAX,
    };
    store.runs().create(run("one")).await.unwrap();
    store.runs().create(run("two")).await.unwrap();
    let llm = json!({"llm": {"resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "tiny"}});
    store.resources().update(Some("rs-1"), llm.as_object().cloned().unwrap()).await.unwrap();
    let queued = |id: &str| NewRollout {
        rollout_id: Some(id.into()),
        input: json!({"n": 0.1}),
        metadata: json!({"run_id": "one", "step": 2}).as_object().cloned(),
        ..NewRollout::default()
    };
    store.rollouts().enqueue(vec![queued("z"), queued("y"), queued("x")]).await.unwrap();
    let claimed = store.rollouts().dequeue(2, Some("worker"), std::time::Duration::ZERO).await.unwrap();
    for (index, prompt) in [&[1, 2][..], &[1, 2, 100, 9], &[1, 2, 100, 8], &[5]].iter().enumerate() {
        store.recording().record(archived_call(index, &claimed[index / 3], prompt)).await.unwrap();
        store
            .rewards()
            .add_to_generation(&claimed[index / 3].rollout.rollout_id, &format!("g{index}"), Reward::new(0.1))
            .await
            .unwrap();
    }
    store.recording().set_client_disconnected("g2", true).await.unwrap();
    store.spans().next_sequence_id("z").await.unwrap();
    store.attempts().update("z", "latest", AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
    let uses = vec![GenerationUse { generation_id: "g0".into(), cause: "trained".into(), tokens: 2 }];
    let of_teacher = |generation_id: &str, logprobs: Vec<f32>| TeacherLogprobs {
        generation_id: generation_id.into(),
        teacher: "large".into(),
        logprobs,
    };
    let teacher_logprobs = vec![of_teacher("g0", vec![-0.25, -1e-45]), of_teacher("g1", vec![-0.5, 0.0])];
    let checkpoint = CheckpointRecord { directory: "/tmp/x".into(), state: json!({"cursor": 3}) };
    store
        .runs()
        .record_step(StepRecord {
            run_id: "one".into(),
            step: 1,
            metrics: json!({"loss": 0.3}),
            weights_version: 7,
            uses,
            teacher_logprobs,
            checkpoint: Some(checkpoint),
        })
        .await
        .unwrap();
    store.gateway_rollouts().create(vec![gateway_rollout()]).await.unwrap();
    store
}

#[tokio::test]
async fn a_store_is_made_again_from_its_archive() {
    let store = full_store().await;
    let records = archive(&store).await;
    let copy = TestStore::new().await;
    let number = records.len() as u64;
    assert_eq!(copy.housekeeping().import(records.clone()).await.unwrap(), Imported { new: number, known: 0 });
    let (before, after) = (everything(&store).await, everything(&copy).await);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(archive(&copy).await, records);
    assert_eq!(copy.housekeeping().check(&mut |_| {}).await.unwrap(), 0);
    // Again: everything is known, and nothing changes.
    assert_eq!(copy.housekeeping().import(records).await.unwrap(), Imported { new: 0, known: number });
    assert_eq!(everything(&copy).await, after);
}

#[tokio::test]
async fn what_is_there_already_stays_as_it_is() {
    let store = full_store().await;
    let records = archive(&store).await;
    let other = TestStore::new().await;
    let mine = NewRollout { rollout_id: Some("z".into()), input: json!("mine"), ..NewRollout::default() };
    other.rollouts().enqueue(vec![mine, NewRollout::default()]).await.unwrap();
    let imported = other.housekeeping().import(records).await.unwrap();
    assert_eq!(imported.known, 1);
    assert_eq!(other.rollouts().get("z").await.unwrap().unwrap().0.input, json!("mine"));
    // Its place in the queue was taken.
    let order = other.rollouts().dequeue(9, None, std::time::Duration::ZERO).await.unwrap();
    assert!(order.iter().any(|rollout| rollout.rollout.rollout_id == "x"));
}

#[tokio::test]
async fn all_records_are_stored_or_none_and_the_bad_one_is_named() {
    let store = full_store().await;
    let mut records = archive(&store).await;
    let first_attempt = records.iter().position(|record| matches!(record, ArchiveRecord::Attempt(_))).unwrap();
    if let ArchiveRecord::Attempt(attempt) = &mut records[first_attempt] {
        attempt.rollout_id = "nobody".into();
    }
    let copy = TestStore::new().await;
    let (index, error) = copy.housekeeping().import(records).await.unwrap_err();
    assert_eq!((index, error.to_string()), (first_attempt, "rollout not found: nobody".to_owned()));
    assert_eq!(archive(&copy).await, []);
}

#[tokio::test]
async fn an_archive_is_narrowed_to_rollouts() {
    let store = full_store().await;
    let filter = ListFilter { rollout_id_in: Some(vec!["y".into()]), ..ListFilter::default() };
    let mut export = store.housekeeping().export(ArchiveScope::Generations, filter).await.unwrap();
    let records = export.next().await.unwrap();
    let [ArchiveRecord::Generation(archived)] = &records[..] else { panic!("{records:?}") };
    assert_eq!(archived.generation.generation_id, "g3");
    assert_eq!(export.next().await.unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn every_conversation_is_made_again_token_for_token(
        calls in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..3, 0..4), prop::collection::vec(any::<f32>(), 0..4)), 1..12),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (store, copy) = (TestStore::new().await, TestStore::new().await);
            let attempted = store.start().await;
            let mut contexts: Vec<Vec<u32>> = vec![Vec::new()];
            for (number, (from, new, logprobs)) in calls.iter().enumerate() {
                let prompt = [from.get(&contexts).as_slice(), new].concat();
                let sampled: Vec<u32> = logprobs.iter().map(|logprob| logprob.to_bits() % 3).collect();
                let mut new = generation(&number.to_string(), &attempted, &prompt, &sampled);
                new.logprobs = Some(logprobs.clone());
                store.recording().record(new).await.unwrap();
                contexts.push([prompt, sampled].concat());
            }
            copy.housekeeping().import(archive(&store).await).await.unwrap();
            let (before, after) = (
                store.generations().matching(&GenerationFilter::default()).await.unwrap(),
                copy.generations().matching(&GenerationFilter::default()).await.unwrap(),
            );
            assert_eq!(before, after);
            let bits = |generations: &[fulgurite_types::Generation]| -> Vec<u32> {
                generations.iter().flat_map(|g| g.logprobs.iter().flatten().map(|logprob| logprob.to_bits())).collect()
            };
            assert_eq!(bits(&before), bits(&after));
        });
    }
}
