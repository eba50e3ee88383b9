//! Weights that were written here are compared with their digests wherever they are opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_types::{Datum, WeightsVersion};

use crate::common::{create, files, open, options, sequence, supervised, tiny_config, train};
use fulgurite_backends::{AdamParameters, BackendError, DIGEST_LIST, Learner, NewWeights, Sampler, WeightsSource};
use fulgurite_engine::{ElementType, Engine, EngineError, LoraOptions, convert_model, merge_adapter};

fn quick() -> AdamParameters {
    AdamParameters { learning_rate: 1e-2, ..AdamParameters::default() }
}

/// One bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn names_the_file(error: &EngineError, directory: &Path, file: &str) {
    let EngineError::Damaged(damaged) = error else { panic!("{error}") };
    let text = error.to_string();
    let begins = format!("{}: {file} is not what was saved: its SHA-256 is ", directory.display());
    assert!(damaged.directory == directory && text.starts_with(&begins) && text.contains(DIGEST_LIST), "{text}");
}

fn is_damaged<T>(result: Result<T, BackendError>, file: &str) {
    let Err(BackendError::Damaged(damaged)) = result else { panic!("it was taken") };
    assert!(damaged.damage.to_string().starts_with(&format!("{file} is not what was saved")), "{damaged}");
}

async fn sample_from(engine: &Engine, source: WeightsSource) -> Result<(), BackendError> {
    engine.sampler().load_weights(&NewWeights { version: WeightsVersion(9), source }).await
}

#[tokio::test]
async fn a_flipped_bit_in_a_checkpoint_is_refused_wherever_it_is_opened() {
    let (home, directory) = create(&tiny_config(), 8);
    let engine = open(&directory, 2);
    let learner = engine.learner();
    train(&learner, 0..2, quick()).await;
    let saved = home.path().join("saved");
    learner.save_checkpoint(&saved).await.unwrap();
    let source = || WeightsSource::Model(saved.clone());
    open(&saved, 1);
    sample_from(&engine, source()).await.unwrap();
    let row = || -> Arc<[Datum]> { vec![supervised(&sequence(3, 9, 41), 1.0)].into() };
    let before = learner.forward(row()).await.unwrap();

    for file in ["config.json", "generation_config.json", "model.safetensors", "optimizer.state"] {
        flip(&saved.join(file));
        names_the_file(&Engine::open(&saved, options(1)).unwrap_err(), &saved, file);
        is_damaged(sample_from(&engine, source()).await, file);
        is_damaged(learner.load_checkpoint(&saved).await, file);
        let target = home.path().join("converted");
        names_the_file(&convert_model(&saved, &target, ElementType::F32).unwrap_err(), &saved, file);
        assert!(!target.exists());
        flip(&saved.join(file));
    }
    assert_eq!(learner.forward(row()).await.unwrap(), before, "what is refused changes nothing");
    learner.load_checkpoint(&saved).await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_in_an_adapter_is_refused_wherever_it_is_opened() {
    let (home, directory) = create(&tiny_config(), 8);
    let engine = open(&directory, 2);
    let learner = engine.lora_learner(&LoraOptions::new(2, 7)).unwrap();
    train(&learner, 0..2, quick()).await;
    let saved = home.path().join("saved");
    learner.save_weights(&saved).await.unwrap();
    let weights = "adapter_model.safetensors";
    flip(&saved.join(weights));
    is_damaged(sample_from(&engine, WeightsSource::Adapter(saved.clone())).await, weights);
    let target = home.path().join("merged");
    let merged = merge_adapter(&directory, &saved, &target, ElementType::F32);
    names_the_file(&merged.unwrap_err(), &saved, weights);
    flip(&saved.join(weights));
    merge_adapter(&directory, &saved, &target, ElementType::F32).unwrap();
    open(&target, 1);
    flip(&directory.join("model.safetensors"));
    let merged = merge_adapter(&directory, &saved, &home.path().join("again"), ElementType::F32);
    names_the_file(&merged.unwrap_err(), &directory, "model.safetensors");
}

#[tokio::test]
async fn a_listed_file_that_is_missing_and_a_torn_list_are_named() {
    let (_home, directory) = create(&tiny_config(), 8);
    let refused = || Engine::open(&directory, options(1)).unwrap_err().to_string();
    let (weights, list) = (directory.join("model.safetensors"), directory.join(DIGEST_LIST));
    let kept = std::fs::read(&weights).unwrap();
    std::fs::remove_file(&weights).unwrap();
    assert!(refused().contains("model.safetensors cannot be read: No such file"), "{}", refused());
    std::fs::write(&weights, &kept[..kept.len() - 5]).unwrap();
    assert!(refused().contains("model.safetensors is not what was saved"), "{}", refused());
    std::fs::write(&weights, &kept).unwrap();
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, &text[..text.len() - 30]).unwrap();
    assert!(refused().contains("fulgurite.sha256"), "{}", refused());
    std::fs::write(&list, "").unwrap();
    assert!(refused().contains("it lists no files"), "{}", refused());
    std::fs::write(&list, text).unwrap();
    open(&directory, 1);
}

#[tokio::test]
async fn a_checkpoint_without_digests_opens_as_those_of_older_versions_do() {
    let (home, directory) = create(&tiny_config(), 8);
    let learner = open(&directory, 2).learner();
    train(&learner, 0..2, quick()).await;
    let saved = home.path().join("saved");
    learner.save_checkpoint(&saved).await.unwrap();
    std::fs::remove_file(saved.join(DIGEST_LIST)).unwrap();
    let reopened = open(&saved, 2).learner();
    reopened.load_checkpoint(&saved).await.unwrap();
    let again: [PathBuf; 2] = ["again", "straight"].map(|name| home.path().join(name));
    for (learner, place) in [&reopened, &learner].into_iter().zip(&again) {
        train(learner, 2..3, quick()).await;
        learner.save_checkpoint(place).await.unwrap();
    }
    assert_eq!(files(&again[0]), files(&again[1]));
}
