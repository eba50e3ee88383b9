//! Rows of a run, for tests.

use fulgurite_types::{Run, Step};
use serde_json::Value;

pub(super) fn run(config: Value) -> Run {
    Run { run_id: "r".into(), name: "r".into(), config, seed: 7, start_time: 0.0, allowed_steps: None }
}

pub(super) fn step(number: u64, weights_version: u64, metrics: Value) -> Step {
    Step { run_id: "r".into(), step: number, time: 0.0, metrics, weights_version }
}
