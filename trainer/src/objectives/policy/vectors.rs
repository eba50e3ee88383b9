//! Reads the recorded values of tinker-cookbook and PyTorch for the tests.

use std::path::Path;

use serde_json::Value;

/// A file of `tests/vectors`.
pub(crate) fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub(crate) fn doubles(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|entry| entry.as_f64().unwrap()).collect()
}

pub(crate) fn doubles_of(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(doubles).collect()
}

/// Within 1e-5 of what another program computed.
pub(crate) fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= 1e-5 * expected.abs().max(1e-3), "{actual}, but PyTorch has {expected}");
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    doubles(value).into_iter().map(|entry| entry as f32).collect()
}
