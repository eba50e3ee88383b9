//! Directories that transformers wrote give the log-probabilities that transformers computed.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_backends::Learner;
use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

async fn check(name: &str) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let text = std::fs::read_to_string(directory.join("logprobs.json")).unwrap();
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(fixture["tokens"].clone()).unwrap();
    let expected: Vec<Vec<f64>> = serde_json::from_value(fixture["logprobs"].clone()).unwrap();

    let engine = crate::common::open(&directory, 2);
    // One row for each token of the vocabulary, which asks for that token everywhere.
    let row = |target: u32| Datum {
        model_input: vec![Chunk::Tokens(tokens.clone())],
        target_tokens: vec![target; tokens.len()],
        loss_inputs: LossInputs::Supervised { weights: vec![1.0; tokens.len()] },
    };
    let data: Arc<[Datum]> = (0..engine.config().vocab_size as u32).map(row).collect();
    let found = engine.learner().forward(data).await.unwrap();
    assert_eq!(expected.len(), tokens.len());
    for (position, expected) in expected.iter().enumerate() {
        for (token, expected) in expected.iter().enumerate() {
            let found = f64::from(found[token][position]);
            assert!(
                (found - expected).abs() < 1e-5,
                "{name}, position {position}, token {token}: {found}, not {expected}"
            );
        }
    }
}

#[tokio::test]
async fn a_tied_model() {
    check("qwen3-tied").await;
}

#[tokio::test]
async fn an_untied_model_in_bf16() {
    check("qwen3-untied-bf16").await;
}

#[tokio::test]
async fn positions_at_half_their_distance() {
    check("qwen3-linear").await;
}

#[tokio::test]
async fn a_qwen2_with_biases_and_yarn() {
    check("qwen2-yarn").await;
}

#[tokio::test]
async fn a_llama_in_f16() {
    check("llama").await;
}

#[tokio::test]
async fn a_llama_with_its_own_stretching() {
    check("llama-3.1").await;
}
