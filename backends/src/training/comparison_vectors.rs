//! Every loss of comparisons against PyTorch's automatic differentiation (`tests/vectors/torch/preferences.py`).

use std::path::Path;

use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

use super::comparisons::{ComparedAnswer, Comparison, Comparisons, PreferenceLoss};

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn close(actual: f64, expected: f64, what: &str) {
    let difference = (actual - expected).abs();
    assert!(difference <= 1e-5 * expected.abs().max(1e-3), "{what}: {actual}, but PyTorch has {expected}");
}

fn loss(name: &str, parameters: &Value) -> PreferenceLoss {
    let number = |key: &str| parameters[key].as_f64().unwrap();
    let beta = number("beta");
    match name {
        "dpo" => PreferenceLoss::Dpo { beta, label_smoothing: 0.0 },
        "conservative" => PreferenceLoss::Dpo { beta, label_smoothing: number("smoothing") },
        "ipo" => PreferenceLoss::Ipo { beta },
        "orpo" => PreferenceLoss::Orpo { beta },
        _ => PreferenceLoss::Kto {
            beta,
            baseline: number("baseline"),
            desirable_weight: number("desirable"),
            undesirable_weight: number("undesirable"),
        },
    }
}

/// The rows of comparisons as the learner is given them, with the logprobs that it finds.
fn rows(pairs: &[&Value]) -> (Vec<Datum>, Vec<Vec<f32>>, Vec<Comparison>) {
    let (mut data, mut logprobs, mut list) = (Vec::new(), Vec::new(), Vec::new());
    for pair in pairs {
        let mut answer = |side: &str| {
            let compared = pair.get(side)?;
            let begin = data.len();
            for row in compared["sequences"].as_array().unwrap() {
                let weights = floats(&row["weights"]);
                let targets = vec![1; weights.len()];
                let loss_inputs = LossInputs::Supervised { weights };
                data.push(Datum {
                    model_input: vec![Chunk::Tokens(targets.clone())],
                    target_tokens: targets,
                    loss_inputs,
                });
                logprobs.push(floats(&row["logprobs"]));
            }
            Some(ComparedAnswer { data: begin..data.len(), reference: compared["reference"].as_f64().unwrap() })
        };
        let chosen = answer("chosen");
        list.push(Comparison { chosen, rejected: answer("rejected") });
    }
    (data, logprobs, list)
}

/// By the losses that TRL's own code computed.
fn trl_loss(name: &str, parameters: &Value) -> PreferenceLoss {
    let beta = parameters["beta"].as_f64().unwrap();
    let label_smoothing = parameters["label_smoothing"].as_f64().unwrap_or_default();
    match name {
        "hinge" => PreferenceLoss::Hinge { beta },
        "robust" => PreferenceLoss::Robust { beta, label_smoothing },
        "apo_zero" => PreferenceLoss::ApoZero { beta },
        "apo_down" => PreferenceLoss::ApoDown { beta },
        "simpo" => PreferenceLoss::Simpo { beta, gamma: parameters["gamma"].as_f64().unwrap() },
        _ => PreferenceLoss::Dpo { beta, label_smoothing },
    }
}

#[test]
fn trls_losses_and_gradients() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/trl/losses.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(file["trl"], "1.16.0");
    let pairs = file["pairs"].as_array().unwrap();
    for (name, theirs) in file["preferences"].as_object().unwrap() {
        let parameters = &theirs["parameters"];
        let (mut data, mut logprobs, mut list) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs {
            let sides = [&pair["chosen"], &pair["rejected"]]
                .map(|side| (floats(&side["logprobs"]), floats(&side["reference"])));
            let shared = sides[0].0.len().min(sides[1].0.len());
            let [chosen, rejected] = sides.map(|(known, reference)| {
                let tail = parameters["ld_alpha"].as_f64().unwrap_or(1.0) as f32;
                let weights: Vec<f32> = (0..known.len()).map(|place| if place < shared { 1.0 } else { tail }).collect();
                let reference = weights
                    .iter()
                    .zip(&reference)
                    .map(|(weight, number)| f64::from(*weight) * f64::from(*number))
                    .sum();
                let targets = vec![1; weights.len()];
                data.push(Datum {
                    model_input: vec![Chunk::Tokens(targets.clone())],
                    target_tokens: targets,
                    loss_inputs: LossInputs::Supervised { weights },
                });
                logprobs.push(known);
                Some(ComparedAnswer { data: data.len() - 1..data.len(), reference })
            });
            list.push(Comparison { chosen, rejected });
        }
        let tokens: usize = pairs.iter().map(|pair| floats(&pair["chosen"]["logprobs"]).len()).sum();
        let likelihood = parameters["weights"][1].as_f64().unwrap_or_default();
        let comparisons = Comparisons {
            loss: trl_loss(name, parameters),
            scale: 1.0 / list.len() as f64,
            likelihood_scale: likelihood / tokens as f64,
            list,
        };
        let (value, linear) = comparisons.as_cross_entropy(&data, &logprobs);
        close(value, theirs["value"].as_f64().unwrap(), name);
        for (datum, gradient) in linear.iter().zip(theirs["gradient"].as_array().unwrap()) {
            let LossInputs::Supervised { weights } = &datum.loss_inputs else { panic!("weights") };
            for (weight, expected) in weights.iter().zip(gradient.as_array().unwrap()) {
                close(f64::from(-weight), expected.as_f64().unwrap(), name);
            }
        }
    }
}

#[test]
fn pytorchs_losses_and_gradients() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/torch/preferences.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let list = |key: &str| file[key].as_array().unwrap().iter().collect::<Vec<_>>();
    for name in ["dpo", "conservative", "ipo", "orpo", "kto"] {
        let theirs = &file["losses"][name];
        let pairs = if name == "kto" { [list("pairs"), list("singles")].concat() } else { list("pairs") };
        let (data, logprobs, list) = rows(&pairs);
        let (loss, scale) = (loss(name, &theirs["parameters"]), theirs["scale"].as_f64().unwrap());
        let comparisons = Comparisons { loss, scale, likelihood_scale: 0.0, list };
        comparisons.check(&data).unwrap();
        let (value, linear) = comparisons.as_cross_entropy(&data, &logprobs);
        close(value, theirs["value"].as_f64().unwrap(), name);
        let gradients = theirs["gradient"].as_array().unwrap();
        assert_eq!(gradients.len(), linear.len());
        for (datum, gradient) in linear.iter().zip(gradients) {
            let LossInputs::Supervised { weights } = &datum.loss_inputs else { panic!("weights") };
            // A cross entropy of weight w has the slope -w.
            for (weight, expected) in weights.iter().zip(gradient.as_array().unwrap()) {
                close(f64::from(-weight), expected.as_f64().unwrap(), name);
            }
        }
    }
}
