//! What a model takes is what the sum says. Each measure is of a process of its own, which is this test program again.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::common::{create, supervised, tiny_config};
use fulgurite_backends::{AdamParameters, Learner, LossFunction};
use fulgurite_engine::{ElementType, Engine, EngineOptions, LoraOptions, ModelConfig, convert_model, inspect_model};

/// Where a measured process finds its model, and what it is to do with it.
const MODEL: &str = "MEASURED_MODEL";
const TRAINED: &str = "MEASURED_TRAINED";

/// Rows of a pass, which the sum counts activations for.
const ROWS: usize = 512;

fn config(hidden_size: usize) -> ModelConfig {
    ModelConfig {
        vocab_size: 8192,
        hidden_size,
        intermediate_size: 3 * hidden_size,
        num_hidden_layers: 4,
        num_attention_heads: 8,
        num_key_value_heads: 4,
        head_dim: 64,
        max_position_embeddings: 1024,
        ..tiny_config()
    }
}

fn options() -> EngineOptions {
    EngineOptions { threads: 1, prefix_cache_bytes: 0, ..EngineOptions::default() }
}

/// Bytes of memory that this process has had at most.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
#[ignore = "measured by the other tests, each time in a process of its own"]
async fn measured() {
    let (model, trained) = (std::env::var(MODEL).unwrap(), std::env::var(TRAINED).unwrap());
    let before = peak();
    let engine = Engine::open(&model, options()).unwrap();
    let learner = match trained.as_str() {
        "nothing" => None,
        "adapter" => Some(engine.lora_learner(&LoraOptions::new(16, 1)).unwrap()),
        _ => Some(engine.learner()),
    };
    if let Some(learner) = learner {
        let sequence = |seed| crate::common::sequence(seed, ROWS + 1, 8192);
        // One for each shard, and a step after the first was published.
        for version in 1..3 {
            let data = [supervised(&sequence(version), 1.0), supervised(&sequence(version + 9), 1.0)];
            learner.forward_backward(data.into(), LossFunction::CrossEntropy).await.unwrap();
            learner.optimizer_step(AdamParameters::default()).await.unwrap();
            learner.publish_weights(fulgurite_types::WeightsVersion(version)).await.unwrap();
        }
    }
    println!("peak={}", peak() - before);
}

/// What a process has had at most that opens the model and takes two steps, if something is trained.
fn measure(model: &Path, trained: &str) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::measured", "--ignored", "--nocapture"])
        .envs([(MODEL, model.as_os_str()), (TRAINED, trained.as_ref())])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let peak = text.lines().find_map(|line| line.split_once("peak=")).expect(&text).1;
    peak.trim().parse().unwrap()
}

/// A tenth is left to what the sum does not name, and 16 MiB to the process.
fn assert_near(measured: u64, sum: u64, what: &str) {
    println!("{what}: {measured} bytes where {sum} are counted");
    assert!(measured < sum + sum / 10 + (16 << 20), "{what}: {measured} bytes where {sum} are counted");
    assert!(measured > sum - sum / 5, "{what}: {measured} bytes where {sum} are counted");
}

#[test]
fn opening_a_model_takes_its_weights_once() {
    let (home, model) = create(&config(512), 1);
    let halves = home.path().join("halves");
    convert_model(&model, &halves, ElementType::Bf16).unwrap();
    for directory in [&model, &halves] {
        let need = inspect_model(directory).unwrap().memory;
        assert_near(measure(directory, "nothing"), need.weights, "opened");
    }
    let weights = |directory| inspect_model(directory).unwrap().memory.weights;
    assert!(weights(&halves) < weights(&model) * 51 / 100);
}

#[test]
fn training_takes_what_the_sum_says() {
    let (_home, model) = create(&config(128), 1);
    let found = inspect_model(&model).unwrap();
    for (trained, need) in [("adapter", found.lora_memory), ("all", found.memory)] {
        // All activations are kept where there is room for them.
        let sum = need.training() - need.activations_recomputed + need.activations - need.prefix_cache;
        assert_near(measure(&model, trained), sum, trained);
    }
}
