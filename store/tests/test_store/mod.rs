//! A store for one test, and what it is filled with; the tests of the crates above this one take it too.

#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{AttemptedRollout, NewGeneration, NewRollout, RecordedSampling, RolloutConfig, WeightsFrom};
use serde_json::json;

#[path = "../test_database/mod.rs"]
mod test_database;

pub use test_database::TestDatabase;

/// A store in a database of its own, which goes away with it.
pub struct TestStore {
    pub store: Store,
    pub database: TestDatabase,
}

impl std::ops::Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl TestStore {
    pub async fn new() -> Self {
        let database = TestDatabase::new().await;
        let store = Store::open(&database.url, StoreOptions::default()).await.unwrap();
        Self { store, database }
    }

    pub async fn start(&self) -> AttemptedRollout {
        self.rollouts().start(NewRollout { input: json!("task"), ..NewRollout::default() }, None).await.unwrap()
    }
}

/// Cases of a property that makes a database for each: fewer where that takes longer.
pub fn cases() -> u32 {
    if std::env::var_os(test_database::SERVER).is_some() { 12 } else { 48 }
}

pub fn rollout_with(config: RolloutConfig) -> NewRollout {
    NewRollout { input: json!({"question": "1 + 1"}), config: Some(config), ..NewRollout::default() }
}

pub fn generation(
    id: &str,
    attempted: &AttemptedRollout,
    prompt_tokens: &[u32],
    sampled_tokens: &[u32],
) -> NewGeneration {
    NewGeneration {
        generation_id: id.to_owned(),
        rollout_id: attempted.rollout.rollout_id.clone(),
        attempt_id: attempted.attempt.attempt_id.clone(),
        name: "openai.chat.completion".into(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: format!("span-{id}"),
        start_time: 1.5,
        end_time: 2.5,
        attributes: json!({"gen_ai.response.id": id}).as_object().cloned().unwrap(),
        model: "tiny".into(),
        prompt_tokens: prompt_tokens.to_vec(),
        sampled_tokens: sampled_tokens.to_vec(),
        logprobs: Some(sampled_tokens.iter().map(|token| -0.1 * *token as f32).collect()),
        stop_reason: "stop_token".into(),
        weights_versions: if sampled_tokens.is_empty() {
            Vec::new()
        } else {
            vec![WeightsFrom { version: 3, first_token: 0 }]
        },
        sampling: RecordedSampling(json!({"temperature": 1.0})),
        seed: u64::MAX,
        renderer: "template".into(),
        tokenizer: "sha256:0".into(),
        request_digest: format!("digest-{id}"),
        branch_reason: None,
        client_disconnected: false,
        defect: None,
    }
}
