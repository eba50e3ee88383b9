//! Every loss against PyTorch's automatic differentiation (`tests/vectors/torch/policy_losses.py`).

use std::path::Path;

use fulgurite_backends::{LossFunction, RatioBounds};
use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

use super::loss::token_losses;

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

/// A row as the loss takes it; cross entropy's weights are the absolute values of the advantages.
fn datum(row: &Value, function: LossFunction) -> Datum {
    let advantages = floats(&row["advantages"]);
    let targets = vec![1; advantages.len()];
    let loss_inputs = match function {
        LossFunction::CrossEntropy => {
            LossInputs::Supervised { weights: advantages.iter().map(|advantage| advantage.abs()).collect() }
        }
        _ => LossInputs::Policy { logprobs: floats(&row["sampler"]), advantages, mask: floats(&row["mask"]) },
    };
    Datum { model_input: vec![Chunk::Tokens(targets.clone())], target_tokens: targets, loss_inputs }
}

fn close(actual: f64, expected: f64, what: &str) {
    let difference = (actual - expected).abs();
    assert!(difference <= 1e-5 * expected.abs().max(1e-3), "{what}: {actual}, but PyTorch has {expected}");
}

#[test]
fn pytorchs_losses_and_gradients() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/torch/policy_losses.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rows = file["rows"].as_array().unwrap();
    for name in ["cross_entropy", "importance_sampling", "ppo", "cispo", "gspo", "dro"] {
        let theirs = &file["losses"][name];
        let number = |key: &str| theirs["parameters"][key].as_f64().unwrap() as f32;
        let bounds = || RatioBounds { low: number("clip_low"), high: number("clip_high") };
        let function = match name {
            "ppo" => LossFunction::Ppo(bounds()),
            "cispo" => LossFunction::Cispo(bounds()),
            "gspo" => LossFunction::Gspo(bounds()),
            "dro" => LossFunction::Dro { beta: number("beta") },
            "cross_entropy" => LossFunction::CrossEntropy,
            _ => LossFunction::ImportanceSampling,
        };
        let mut value = 0.0;
        for (row, gradient) in rows.iter().zip(theirs["gradient"].as_array().unwrap()) {
            let logprobs = floats(&row["logprobs"]);
            let losses = token_losses(&datum(row, function), function, &logprobs).unwrap();
            assert_eq!(losses.len(), logprobs.len());
            for ((loss, logprob), expected) in losses.iter().zip(&logprobs).zip(gradient.as_array().unwrap()) {
                value += loss.value(*logprob);
                close(f64::from(loss.slope(*logprob)), expected.as_f64().unwrap(), name);
            }
        }
        close(value, theirs["value"].as_f64().unwrap(), name);
    }
}

/// Of TRL's own code: means over each rollout's tokens, and over rollouts.
#[test]
fn trls_losses_and_gradients() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/trl/losses.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rollouts = file["rollouts"].as_array().unwrap();
    let bounds = RatioBounds { low: 0.8, high: 1.28 };
    for (name, function) in [
        ("dual_clip", LossFunction::DualClip { bounds, ratio_limit: 1.5 }),
        ("sapo", LossFunction::Sapo { positive: 1.0, negative: 1.05 }),
        ("sapo_other_temperatures", LossFunction::Sapo { positive: 2.0, negative: 3.0 }),
    ] {
        let theirs = &file["policies"][name];
        let mut value = 0.0;
        for (rollout, gradient) in rollouts.iter().zip(theirs["gradient"].as_array().unwrap()) {
            let logprobs = floats(&rollout["logprobs"]);
            let count = logprobs.len();
            let advantage = rollout["advantage"].as_f64().unwrap() as f32;
            let loss_inputs = LossInputs::Policy {
                logprobs: floats(&rollout["sampler"]),
                advantages: vec![advantage; count],
                mask: vec![1.0; count],
            };
            let targets = vec![1; count];
            let model_input = vec![Chunk::Tokens(targets.clone())];
            let datum = Datum { model_input, target_tokens: targets, loss_inputs };
            let share = 1.0 / (count * rollouts.len()) as f64;
            let losses = token_losses(&datum, function, &logprobs).unwrap();
            for ((loss, logprob), expected) in losses.iter().zip(&logprobs).zip(gradient.as_array().unwrap()) {
                value += share * loss.value(*logprob);
                close(share * f64::from(loss.slope(*logprob)), expected.as_f64().unwrap(), name);
            }
        }
        close(value, theirs["value"].as_f64().unwrap(), name);
    }
}
