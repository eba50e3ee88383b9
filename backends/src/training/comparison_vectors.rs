//! Every loss of comparisons against PyTorch's automatic differentiation (`tests/vectors/torch/preferences.py`).

use std::path::Path;

use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

use super::comparisons::{AnswerScore, ComparedAnswer, Comparison, Comparisons, PreferenceLoss, WeightedLoss};

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

/// One of the losses that TRL's own code computed, by its name there; none for the likelihood of chosen answers.
fn trl_loss(name: &str, parameters: &Value) -> Option<PreferenceLoss> {
    let beta = parameters["beta"].as_f64().unwrap();
    let label_smoothing = parameters["label_smoothing"].as_f64().unwrap_or_default();
    Some(match name {
        "hinge" => PreferenceLoss::Hinge { beta },
        "robust" => PreferenceLoss::Robust { beta, label_smoothing },
        "apo_zero" => PreferenceLoss::ApoZero { beta },
        "apo_down" => PreferenceLoss::ApoDown { beta },
        "ipo" => PreferenceLoss::Ipo { beta },
        "simpo" => PreferenceLoss::Simpo { beta, gamma: parameters["gamma"].as_f64().unwrap() },
        "sft" => return None,
        _ => PreferenceLoss::Dpo { beta, label_smoothing },
    })
}

/// Its losses with their weights, and what the likelihood weighs.
fn trl_losses(name: &str, parameters: &Value) -> (Vec<WeightedLoss>, f64) {
    let names: Vec<&str> = match &parameters["loss_type"] {
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap()).collect(),
        _ => vec![name],
    };
    let weight = |place: usize| parameters["weights"][place].as_f64().unwrap_or(1.0);
    let (mut losses, mut likelihood) = (Vec::new(), 0.0);
    for (place, name) in names.into_iter().enumerate() {
        match trl_loss(name, parameters) {
            Some(loss) => losses.push(WeightedLoss { loss, weight: weight(place) }),
            None => likelihood += weight(place),
        }
    }
    (losses, likelihood)
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
        let (mut losses, likelihood) = trl_losses(name, parameters);
        let WeightedLoss { loss, weight } = losses.remove(0);
        losses.iter_mut().for_each(|other| other.weight /= weight);
        let comparisons = Comparisons {
            loss,
            others: losses,
            scale: weight / list.len() as f64,
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
fn trls_reward_models() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/trl/losses.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let scores = file["scores"].as_array().unwrap();
    for (name, theirs) in file["rewards"].as_object().unwrap() {
        let centering = theirs["center_rewards_coefficient"].as_f64().unwrap_or_default();
        let (loss, scale) = (PreferenceLoss::BradleyTerry { centering }, 1.0 / scores.len() as f64);
        let mut value = 0.0;
        for (pair, gradient) in scores.iter().zip(theirs["gradient"].as_array().unwrap()) {
            let answer =
                |side: usize| AnswerScore { logprob: pair[side].as_f64().unwrap(), weight: 1.0, reference: 0.0 };
            let cost = loss.cost(Some(&answer(0)), Some(&answer(1)));
            value += scale * cost.value;
            close(scale * cost.chosen, gradient[0].as_f64().unwrap(), name);
            close(scale * cost.rejected, gradient[1].as_f64().unwrap(), name);
        }
        close(value, theirs["value"].as_f64().unwrap(), name);
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
        let comparisons = Comparisons { loss, others: Vec::new(), scale, likelihood_scale: 0.0, list };
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
