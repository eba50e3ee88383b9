//! Reads tinker-cookbook's recorded values for the tests.

use std::collections::BTreeMap;
use std::path::Path;

use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::Value;

use crate::{Action, Transition};

/// A file of `tests/vectors`.
pub(crate) fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

pub(crate) fn tokens(value: &Value) -> Vec<u32> {
    list(value).iter().map(|token| u32::try_from(token.as_u64().unwrap()).unwrap()).collect()
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    list(value).iter().map(|entry| number(entry) as f32).collect()
}

/// The file has one image only, so that one digest will do.
fn chunk(value: &Value) -> Chunk {
    if value.get("image").is_none() {
        return Chunk::Tokens(tokens(&value["text"]));
    }
    let positions = value.get("expected_tokens").unwrap_or(&value["length"]);
    Chunk::Image { digest: "the image".into(), expected_tokens: usize::try_from(positions.as_u64().unwrap()).unwrap() }
}

pub(crate) fn transition(value: &Value) -> Transition {
    let observation = match list(&value["ob"]) {
        [] => Vec::new(),
        [first, ..] if first.is_object() => list(&value["ob"]).iter().map(chunk).collect(),
        _ => vec![Chunk::Tokens(tokens(&value["ob"]))],
    };
    let metrics: BTreeMap<String, f64> =
        value["metrics"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), number(value))).collect();
    Transition {
        observation,
        action: Action { tokens: tokens(&value["ac"]), logprobs: floats(&value["logprobs"]) },
        reward: number(&value["reward"]),
        episode_done: value["episode_done"].as_bool().unwrap(),
        masked: metrics.contains_key("parse_error_masked"),
        metrics,
        stop_reason: Some("stop".into()),
    }
}

pub(crate) fn transitions(value: &Value) -> Vec<Transition> {
    list(value).iter().map(transition).collect()
}

pub(crate) fn datum(value: &Value) -> Datum {
    let data = |name: &str| floats(&value[name]["data"]);
    Datum {
        model_input: list(&value["model_input"]).iter().map(chunk).collect(),
        target_tokens: tokens(&value["target_tokens"]["data"]),
        loss_inputs: match value.get("weights") {
            Some(_) => LossInputs::Supervised { weights: data("weights") },
            None => {
                LossInputs::Policy { logprobs: data("logprobs"), advantages: data("advantages"), mask: data("mask") }
            }
        },
    }
}
