//! What was acknowledged before `kill -9` is there afterwards, once, and work carries on.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{AttemptStatus, AttemptUpdate, GenerationFilter, NewGeneration, NewRollout};
use serde_json::json;

use crate::test_database::TestDatabase;

/// Names the database to the process that is killed.
const DATABASE: &str = "FULGURITE_TEST_DATABASE";
const ACKNOWLEDGED: usize = 25;

fn generation(number: usize, rollout_id: &str, attempt_id: &str) -> NewGeneration {
    NewGeneration {
        generation_id: format!("g{number}"),
        rollout_id: rollout_id.into(),
        attempt_id: attempt_id.into(),
        name: "openai.chat.completion".into(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: format!("{number:016x}"),
        start_time: 1.0,
        end_time: 2.0,
        attributes: serde_json::Map::new(),
        model: "tiny".into(),
        prompt_tokens: (0..number as u32).collect(),
        sampled_tokens: vec![number as u32],
        logprobs: Some(vec![-1.0]),
        stop_reason: "length".into(),
        weights_versions: Vec::new(),
        sampling: fulgurite_types::RecordedSampling::default(),
        seed: 0,
        renderer: "template".into(),
        tokenizer: "none".into(),
        request_digest: String::new(),
        branch_reason: None,
        client_disconnected: false,
        defect: None,
    }
}

/// The process that is killed: records without end and says what has been acknowledged.
#[tokio::test]
async fn write_until_killed() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let store = Store::open(&database, StoreOptions::default()).await.unwrap();
    let started = store.rollouts().start(NewRollout { input: json!(1), ..NewRollout::default() }, None).await.unwrap();
    for number in 0.. {
        let call = generation(number, &started.rollout.rollout_id, &started.attempt.attempt_id);
        let generation_id = call.generation_id.clone();
        store.recording().record(call).await.unwrap();
        println!("acknowledged {generation_id}");
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_counted_twice() {
    let database = TestDatabase::new().await;
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::write_until_killed", "--nocapture"])
        .env(DATABASE, &database.url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let acknowledged: Vec<String> = BufReader::new(writer.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| Some(line.split_once("acknowledged ")?.1.to_owned()))
        .take(ACKNOWLEDGED)
        .collect();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(acknowledged.len(), ACKNOWLEDGED);

    let store = Store::open(&database.url, StoreOptions::default()).await.unwrap();
    let found = store.generations().matching(&GenerationFilter::default()).await.unwrap();
    // One more may have been committed than could be said; each is there once, in order, and rebuilds.
    assert!(found.len() >= ACKNOWLEDGED);
    for (number, generation) in found.iter().enumerate() {
        assert_eq!(generation.generation_id, format!("g{number}"));
        assert_eq!(generation.prompt_tokens, (0..number as u32).collect::<Vec<_>>());
        assert_eq!(generation.sequence_id, number as u64 + 1);
    }
    assert_eq!(store.queries().statistics().await.unwrap().spans, found.len() as u64);
    let (rollout_id, attempt_id) = (&found[0].rollout_id, &found[0].attempt_id);
    store.recording().record(generation(found.len(), rollout_id, attempt_id)).await.unwrap();
    let next = store.generations().matching(&GenerationFilter::default()).await.unwrap().pop().unwrap();
    assert_eq!(next.parent_id.as_ref(), found.last().map(|generation| &generation.generation_id));
    let ended = store.attempts().report(rollout_id, attempt_id, AttemptUpdate::status(AttemptStatus::Succeeded)).await;
    assert_eq!(ended.unwrap().status, AttemptStatus::Succeeded);
}
