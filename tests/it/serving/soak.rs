//! A long run holds no more memory at its end than in its middle.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{Process, fulgurite, resident_bytes};
use serde_json::Value;

/// Updates of a run in a suite of tests. `SOAK_UPDATES` makes it longer.
const UPDATES: usize = 80;
/// What the allocator and the database's cache may come to hold more of, of all that they hold.
const TOLERANCE: f64 = 1.2;

const CONFIG: &str = r#"
[run]
name = "soak"
seed = 1

[[models]]
name = "hello"
backend = "embedded"
path = "model"

[base]
corpus = ["hello-corpus", "--seed", "{seed}", "--count", "400"]
vocabulary_size = 300
shape = { hidden_size = 32, layers = 1, heads = 2, key_value_heads = 1, head_size = 16, intermediate_size = 64, context_length = 128 }
training = { batch_size = 16, max_steps = 5, cooldown_steps = 2 }

[tasks]
train = { range = [0, 1000] }
held_out = { range = [1000, 1002] }
final = { range = [1002, 1004] }

[runner]
parallel = 4
command = ["hello-agent", "{task}"]
# Differs within a group, so that every update trains.
grade = ["sh", "-c", 'echo "{\"reward\": $(($(wc -c) % 3))}"']

[trainer]
groups_per_batch = 4
group_size = 4
learning_rate = 1e-5
evaluation = { every = 20, samples_per_task = 2 }
"#;

fn median(values: &[u64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2] as f64
}

#[test]
fn a_long_run_holds_no_more_memory_at_its_end_than_in_its_middle() {
    let updates = std::env::var("SOAK_UPDATES").map_or(UPDATES, |updates| updates.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("soak.toml"), format!("{CONFIG}max_steps = {updates}\n")).unwrap();
    let mut command = fulgurite(["train", "soak.toml", "--json", "--run-directory", "run"]);
    command.current_dir(directory.path()).stdout(Stdio::piped());
    let mut train = Process::spawn(command);
    let mut resident = Vec::new();
    let mut summary = Value::Null;
    for line in BufReader::new(train.stdout()).lines() {
        summary = serde_json::from_str(&line.unwrap()).unwrap();
        if summary["event"] == "step" && resident.len() < updates {
            resident.push(resident_bytes(train.id()));
        }
    }
    assert_eq!(train.exit_code(), Some(0));
    assert_eq!(summary["untrained_tokens"]["other"], 0, "{summary}");
    assert!(summary["trained_tokens"].as_u64().unwrap() > updates as u64, "{summary}");
    assert_eq!(resident.len(), updates);
    let middle = median(&resident[updates / 2..5 * updates / 8]);
    let end = median(&resident[7 * updates / 8..]);
    println!("{updates} updates: {:.1} MiB in the middle, {:.1} at the end", middle / 1048576.0, end / 1048576.0);
    assert!(end <= TOLERANCE * middle, "{resident:?}");
}
