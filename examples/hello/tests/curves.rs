//! What the README says of runs is what their committed metrics say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;

use serde_json::Value;

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The cells of the table's row for a seed of SmolLM2's: seed, updates, before, after, exact, seconds.
fn row(readme: &str, seed: u64) -> Vec<String> {
    let table = readme.split("## A real model").nth(1).unwrap();
    let row = table.lines().find(|line| line.starts_with(&format!("| {seed} |"))).unwrap();
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn the_table_of_smollm2_says_what_its_runs_measured() {
    let readme = read("README.md");
    for seed in [1, 2, 3] {
        let metrics = read(&format!("curves/smollm2-seed-{seed}.jsonl"));
        let steps: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (first, last) = (&steps[0], &steps[steps.len() - 1]);
        let held_out =
            |step: &Value, name: &str| format!("{:.2}", step[format!("test/env/all/{name}")].as_f64().unwrap());
        let seconds: f64 = steps.iter().map(|step| step["time/total"].as_f64().unwrap()).sum();
        let expected = [
            seed.to_string(),
            last["step"].to_string(),
            held_out(first, "reward/total"),
            held_out(last, "reward/total"),
            held_out(last, "exact"),
            format!("{seconds:.0}"),
        ];
        assert_eq!(row(&readme, seed), expected);
        let greatest =
            steps.iter().filter_map(|step| step["optim/logprob_difference_max"].as_f64()).fold(0.0, f64::max);
        assert_eq!(greatest, 0.0, "sampler and trainer do not agree to the bit");
    }
}
