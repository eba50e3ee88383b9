//! `fulgurite enqueue`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::{Server, run};

#[test]
fn tasks_are_enqueued_as_they_are_written_each_as_a_group() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    let enqueue = |words: &[&str]| {
        let ran = run(["enqueue", "--server", &server.url].iter().chain(words));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let printed = enqueue(&["hello", "{\"n\": 1}", "17", "--tag", "a", "--mode", "val"]);
    let rollouts = server.query("rollouts");
    let inputs: Vec<&Value> = rollouts.iter().map(|rollout| &rollout["input"]).collect();
    assert_eq!(inputs, [&json!("hello"), &json!({ "n": 1 }), &json!(17)]);
    let ids: Vec<&str> = rollouts.iter().map(|rollout| rollout["rollout_id"].as_str().unwrap()).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), ids);
    assert_eq!((&rollouts[0]["mode"], &rollouts[0]["metadata"]), (&json!("val"), &json!({ "tags": ["a"] })));

    std::fs::write(at.join("tasks.jsonl"), "1\n2\n").unwrap();
    enqueue(&["--file", at.join("tasks.jsonl").to_str().unwrap(), "--samples", "300"]);
    let rollouts = server.query("rollouts").split_off(3);
    assert_eq!(rollouts.len(), 600, "more than one request");
    let of = |key: &str| rollouts.iter().map(|it| it["metadata"][key].to_string()).collect::<BTreeSet<_>>();
    assert_eq!((of("group").len(), of("world_seed").len()), (2, 2));
    assert_eq!(rollouts[299]["metadata"], rollouts[0]["metadata"]);
    assert_ne!(rollouts[300]["metadata"], rollouts[0]["metadata"]);
}

#[test]
fn nothing_is_enqueued_of_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    let refused = |words: &[&str]| {
        let ran = run(["enqueue", "--server", &server.url].iter().chain(words));
        assert_ne!(ran.code, Some(0));
        ran.stderr
    };
    assert!(refused(&[]).contains("TASK, --file or --harbor"));
    assert!(refused(&["x", "--samples", "0"]).contains("at least 1"));
    assert!(refused(&["x", "--samples", "10000000"]).contains("more than 1000000"));
    assert!(refused(&["x", "--file", "y"]).contains("cannot be used with"));
    assert!(refused(&["--harbor", directory.path().to_str().unwrap()]).contains("no task.toml"));
    assert!(server.query("rollouts").is_empty());
    let nobody = run(["enqueue", "--server", "http://127.0.0.1:9", "x"]);
    assert!(nobody.code == Some(1) && nobody.stderr.contains("http://127.0.0.1:9"), "{}", nobody.stderr);
}
