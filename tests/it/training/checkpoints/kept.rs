//! When checkpoints are made, and which are kept.

use std::process::Stdio;

use crate::common::eventually;
use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps, weights};
use serde_json::Value;

/// The updates of the checkpoints that are there.
fn there(project: &Project, run: &str) -> Vec<u64> {
    let entries = std::fs::read_dir(project.path(run).join("checkpoints")).unwrap();
    let mut steps: Vec<u64> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    steps.sort_unstable();
    steps
}

fn project(lines: &str) -> Project {
    Project::new(UNEVEN, &format!("{SMALL}{lines}\n"))
}

#[test]
fn checkpoints_are_made_by_sampled_tokens_and_by_time_and_a_killed_run_ends_in_the_same_bytes() {
    let it = project("keep_checkpoints = 9");
    let undisturbed = it.train("all", &[]).pop().unwrap();
    assert_eq!(there(&it, "all"), [1, 2, 3, 4, 5], "after each update, unless told otherwise");
    let replace = |lines: &str| {
        let config = std::fs::read_to_string(it.path("t.toml")).unwrap();
        let kept: Vec<&str> = config.lines().filter(|line| !line.starts_with("checkpoint_every")).collect();
        std::fs::write(it.path("t.toml"), format!("{}\n{lines}\n", kept.join("\n"))).unwrap();
    };
    // Never, at each update, and at whatever comes first: whatever the machine's speed.
    for (name, lines, expected) in [
        ("few", "checkpoint_every_tokens = 1000000000", vec![5]),
        ("rare", "checkpoint_every_seconds = 1e9", vec![5]),
        ("each", "checkpoint_every_tokens = 1", vec![1, 2, 3, 4, 5]),
        ("fast", "checkpoint_every_seconds = 1e-9", vec![1, 2, 3, 4, 5]),
        ("both", "checkpoint_every = 2\ncheckpoint_every_tokens = 1000000000", vec![2, 4, 5]),
    ] {
        replace(lines);
        let summary = it.train(name, &[]).pop().unwrap();
        assert_eq!(there(&it, name), expected, "{name}");
        assert!(weights(&summary) == weights(&undisturbed), "{name}");
    }
    // About every second update. A resumed run counts from the checkpoint that it goes on from.
    let tokens = undisturbed["sampled_tokens"].as_u64().unwrap();
    replace(&format!("checkpoint_every_tokens = {}", tokens / 3));
    it.train("some", &[]);
    let made = there(&it, "some");
    assert!(made.len() > 1 && made.len() < 5, "{made:?}");
    let mut train = it.command("killed").stdout(Stdio::null()).spawn().unwrap();
    eventually("four steps", || (recorded_steps(&it.path("killed")) >= 4).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    let summary = it.train("killed", &["--resume"]).pop().unwrap();
    assert!(weights(&summary) == weights(&undisturbed), "{summary}");
    assert_eq!(there(&it, "killed"), made);
}

#[test]
fn the_best_checkpoint_is_never_removed_and_young_ones_stay() {
    let it = project("keep_checkpoints = 1");
    it.change_config("evaluation = { every = 2", "evaluation = { every = 1");
    let lines = it.train("run", &[]);
    let score = |line: &Value| Some((line["step"].as_u64()?, line["test/env/all/reward/total"].as_f64()?));
    let scores: Vec<(u64, f64)> = lines.iter().filter_map(score).collect();
    // The last is scored after it was made; of equal ones the first is the best.
    let before_last = scores.iter().filter(|(step, _)| (1..5).contains(step));
    let best = before_last.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0))).unwrap().0;
    assert_eq!(there(&it, "run"), [best, 5], "{scores:?}");

    it.change_config("keep_checkpoints = 1", "keep_checkpoints = 1\nkeep_checkpoints_seconds = 1e9");
    it.train("young", &[]);
    assert_eq!(there(&it, "young"), [1, 2, 3, 4, 5]);
    it.change_config("keep_checkpoints_seconds = 1e9", "keep_checkpoints_seconds = 1e-9");
    it.train("old", &[]);
    assert_eq!(there(&it, "old"), [best, 5]);
}
