//! Reads tinker-cookbook's recorded values for the tests.

use std::path::Path;

use serde_json::Value;

/// A file of `tests/vectors`.
pub(super) fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub(super) fn doubles(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|entry| entry.as_f64().unwrap()).collect()
}

pub(super) fn doubles_of(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(doubles).collect()
}

pub(super) fn floats(value: &Value) -> Vec<f32> {
    doubles(value).into_iter().map(|entry| entry as f32).collect()
}
