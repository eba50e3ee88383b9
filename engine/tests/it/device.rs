//! Law: a device changes no bit. Where there is none, or the program was built without CUDA, each test says so and passes;
//! `cuda/check.sh` lets the host stand in for one.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fulgurite_types::WeightsVersion;

use crate::common::{answer, create, files, options, policy, request, rows, sequence, tiny_config, train};
use fulgurite_backends::{AdamParameters, Learner, LossFunction, SampleEvent, SampledToken, Sampler};
use fulgurite_cuda::DeviceError;
use fulgurite_engine::{
    Architecture, Device, EmbeddedLearner, Engine, EngineError, EngineOptions, LoraOptions, ModelConfig,
};

fn open(directory: &Path, device: Device) -> Result<Engine, EngineError> {
    Engine::open(directory, EngineOptions { device, ..options(2) })
}

/// On the processors, and on a device if there is one.
fn both(directory: &Path) -> Option<[Engine; 2]> {
    match open(directory, Device::Cuda(0)) {
        Ok(on_device) => Some([open(directory, Device::Cpu).unwrap(), on_device]),
        Err(error) => {
            let EngineError::Device { source, .. } = &error else { panic!("{error}") };
            let none = [DeviceError::NotBuilt, DeviceError::NoDevice { number: 0, count: 0 }];
            assert!(none.contains(source) || matches!(source, DeviceError::NoDriver { .. }), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Trains, publishes, samples several sequences at once, and trains on those; leaves the weights in `directory`.
async fn run(engine: &Engine, learner: &EmbeddedLearner, directory: &Path) -> Vec<Vec<SampledToken>> {
    train(learner, 0..2, AdamParameters { learning_rate: 0.02, ..AdamParameters::default() }).await;
    learner.publish_weights(WeightsVersion(1)).await.unwrap();
    let prompts = [sequence(1, 3, 41), sequence(2, 20, 41), sequence(3, 9, 41)];
    let running: Vec<_> = prompts
        .iter()
        .zip(0..)
        .map(|(prompt, seed)| {
            let (sampler, request) = (engine.sampler(), request(prompt.clone(), 6, seed));
            tokio::spawn(async move { answer(&sampler, request).await.0 })
        })
        .collect();
    let mut answers = Vec::new();
    for running in running {
        answers.push(running.await.unwrap());
    }
    let data: Arc<[_]> = prompts.iter().zip(&answers).map(|(prompt, answer)| policy(prompt, answer, 0.5)).collect();
    let trained = learner.forward_backward(data, LossFunction::ImportanceSampling).await.unwrap();
    let tokens: usize = answers.iter().map(Vec::len).sum();
    assert_eq!(trained.loss_sum, -0.5 * tokens as f64);
    learner.optimizer_step(AdamParameters::default()).await.unwrap();
    learner.save_checkpoint(directory).await.unwrap();
    answers
}

#[tokio::test]
async fn a_device_changes_no_bit_of_what_is_sampled_and_trained() {
    for (architecture, tie_word_embeddings) in [(Architecture::ALL[0], true), (Architecture::ALL[1], false)] {
        let (home, directory) = create(&ModelConfig { architecture, tie_word_embeddings, ..tiny_config() }, 5);
        let Some(engines) = both(&directory) else { return };
        let mut found = Vec::new();
        for (name, engine) in ["processors", "device"].into_iter().zip(&engines) {
            let checkpoint = home.path().join(name);
            let answers = run(engine, &engine.learner(), &checkpoint).await;
            found.push((answers, files(&checkpoint)));
        }
        assert!(found[0] == found[1]);
    }
}

#[tokio::test]
async fn nor_of_an_adapter() {
    let (home, directory) = create(&tiny_config(), 6);
    let Some(engines) = both(&directory) else { return };
    let mut found = Vec::new();
    for (name, engine) in ["processors", "device"].into_iter().zip(&engines) {
        let checkpoint = home.path().join(name);
        let learner = engine.lora_learner(&LoraOptions::new(3, 1)).unwrap();
        found.push((run(engine, &learner, &checkpoint).await, files(&checkpoint)));
    }
    assert!(found[0] == found[1]);
}

/// Nobody waits in vain, and nothing that was spoilt goes on.
#[tokio::test]
#[ignore = "needs a device that fails: cuda/check.sh has one"]
async fn a_device_that_fails_ends_what_runs_on_it() {
    let (_home, directory) = create(&tiny_config(), 7);
    let Some([_, engine]) = both(&directory) else { panic!("there is no device") };
    let learner = engine.learner();
    let error = loop {
        if let Err(error) = learner.forward_backward(rows(1), LossFunction::CrossEntropy).await {
            break error.to_string();
        }
    };
    assert!(error.contains("has panicked"), "{error}");
    assert!(learner.optimizer_step(AdamParameters::default()).await.is_err());
    let mut stream = engine.sampler().sample(request(sequence(1, 3, 41), 6, 0)).await.unwrap();
    while let Ok(event) = stream.next().await {
        assert!(!matches!(event, SampleEvent::Finished(_)));
    }
}

/// The crate is no member of the workspace, so no `--all-features` switches its feature on.
#[test]
fn nvidias_compiler_is_asked_for_by_name_alone() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", manifest];
    let output = Command::new(env!("CARGO")).args(metadata).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = metadata["packages"].as_array().unwrap().iter().map(|package| &package["name"]).collect();
    assert!(names.contains(&&"fulgurite-engine".into()) && !names.contains(&&"fulgurite-cuda".into()), "{names:?}");
}

#[test]
fn a_device_that_cannot_be_used_is_refused_with_the_way_out() {
    let (_home, directory) = create(&tiny_config(), 1);
    let error = open(&directory, Device::Cuda(1000)).unwrap_err().to_string();
    assert!(error.starts_with("no product can be computed on cuda:1000: "), "{error}");
    let ways = ["`cargo build --release --features fulgurite-cuda/cuda`", "install it", "CUDA_VISIBLE_DEVICES"];
    assert!(ways.iter().any(|way| error.contains(way)), "{error}");
}
