//! Calls that end before their work does, and tools that die.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::host::Host;
use super::{processes_of, project, run, short};
use crate::common::eventually;

/// The metrics of a run's steps, without what depends on the clock.
fn metrics(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let timeless = |mut line: Value| {
        line.as_object_mut().unwrap().retain(|key, _| !key.starts_with("time/"));
        line
    };
    lines.map(timeless).collect()
}

#[test]
fn tools_that_are_killed_leave_a_run_that_waits_and_not_a_process() {
    let project = project();
    let (home, whole) = (project.path("fulgurite/runs/one"), project.path("fulgurite/runs/whole"));
    let mut host = Host::start(project.directory.path(), &[]);
    host.done("write_grader", short());
    host.done("start_run", run("one", "short"));
    host.done("train_steps", json!({ "run": "one", "steps": 2, "wait_seconds": -1 }));
    // At rest, and in the middle of a step.
    for steps in [0, 30] {
        if steps > 0 {
            host.call("train_steps", json!({ "run": "one", "steps": steps, "wait_seconds": -1 }));
            eventually("an update", || (metrics(&home).len() > 3).then_some(()));
        }
        host.process.kill();
        eventually("its trainer to end", || processes_of(&home).is_empty().then_some(()));
        let left = metrics(&home).len();
        host = Host::start(project.directory.path(), &[]);
        let status = host.done("run_status", json!({ "run": "one" }));
        assert!(status.contains("state                 stopped"), "{status}");
        let trained = host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
        assert!(trained.contains(" and waits."), "{trained}");
        assert!(metrics(&home).len() >= 3 && metrics(&home).len() <= left + 1);
    }
    let steps = metrics(&home).len();
    // The same run, never interrupted, comes to the same.
    host.done("start_run", run("whole", "short"));
    host.done("train_steps", json!({ "run": "whole", "steps": steps, "wait_seconds": -1 }));
    let rewards = |run: &Path| -> Vec<Value> {
        metrics(run)
            .iter()
            .map(|step| json!([step["step"], step["env/all/reward/total"], step["optim/gradient_norm"]]))
            .collect()
    };
    assert_eq!(rewards(&home), rewards(&whole));
    assert_eq!(host.close(), Some(0));
    eventually("all to end", || processes_of(project.directory.path()).is_empty().then_some(()));
}

#[test]
fn a_call_that_returns_early_or_is_cancelled_leaves_the_run_in_order() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &["--lock-seconds", "0.2"]);
    host.done("write_grader", short());
    host.done("start_run", run("zero", "short"));
    host.done("train_steps", json!({ "run": "zero", "steps": 1, "wait_seconds": -1 }));
    host.done("start_run", run("one", "short"));
    let early = host.done("train_steps", json!({ "run": "one", "steps": 4, "wait_seconds": 0 }));
    assert!(early.starts_with("Run \"one\" goes on: 0 of 4 updates are made."), "{early}");
    let other = host.refused("start_run", run("two", "short"));
    assert!(other.starts_with("run \"one\" is being trained right now"), "{other}");
    assert!(!project.path("fulgurite/runs/two").exists());
    // Nor does a run that begins from another's checkpoint end the one that is trained.
    let other = host.refused("load_checkpoint", json!({ "run": "zero", "checkpoint": "1", "new_run": "two" }));
    assert!(other.starts_with("run \"one\" is being trained right now"), "{other}");
    assert!(!project.path("fulgurite/runs/two").exists());
    let waited = host.done("train_steps", json!({ "run": "one", "steps": 0, "wait_seconds": -1 }));
    assert!(waited.contains("has made 4 updates"), "{waited}");

    // While a call is at work another one is told so, and one that only looks is answered.
    let long = host.call("train_steps", json!({ "run": "one", "steps": 5000, "wait_seconds": -1 }));
    eventually("an update", || (metrics(&project.path("fulgurite/runs/one")).len() > 5).then_some(()));
    let busy = host.refused("save_checkpoint", json!({ "run": "one", "name": "now" }));
    assert!(busy.starts_with("busy: another call is at work"), "{busy}");
    host.done("run_status", json!({ "run": "one" }));
    host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": long } }));
    let waits =
        || fs::read_to_string(project.path("fulgurite/runs/one/events.jsonl")).unwrap().matches("waiting").count();
    eventually("the run to wait", || (waits() >= 3).then_some(()));
    let made = metrics(&project.path("fulgurite/runs/one")).len();
    assert!(made < 5000);
    let saved = host.done("save_checkpoint", json!({ "run": "one", "name": "now" }));
    assert!(saved.contains(&format!("after {made} updates")), "{saved}");
    let more = host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    assert!(more.contains(&format!("has made {} updates (1 in this call)", made + 1)), "{more}");
    host.close();
}
