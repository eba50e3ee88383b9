//! Graders of an agent's: checked, kept in a sandbox, and fixed once a run has begun.

use std::fs;

use serde_json::{Value, json};

use super::host::Host;
use super::{project, run, short, tasks};
use crate::worlds::there_are_no_sandboxes;

fn grader(code: &str, examples: Value) -> Value {
    json!({ "name": "g", "code": code, "examples": examples })
}

fn two() -> Value {
    json!([{ "task": 1, "answer": "a", "reward": 1 }, { "task": 1, "answer": "b", "reward": 0 }])
}

#[test]
fn a_grader_counts_once_its_examples_come_out_as_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start(directory.path(), &["--grader-seconds", "5"]);
    let message = host.refused("write_grader", grader("def grade(task, answer): return 1", two()));
    assert!(
        message
            .starts_with("the grader does not count: 1 of 2 examples did not come out as they must\nok    1 -> a: 1")
    );
    assert!(message.contains("WRONG 1 -> b: 1, expected 0"), "{message}");
    let broken = [
        ("def grade(task, answer): return 1/0", "ZeroDivisionError"),
        ("def other(task, answer): return 1", "has no attribute 'grade'"),
        ("def grade(task, answer): return 'much'", "could not convert string to float"),
        ("def grade(task", "SyntaxError"),
        ("def grade(task, answer):\n    while True: pass", "grader still ran after its time"),
    ];
    // Root's graders are nobody, whom the file does not belong to.
    let not_written = if rustix::process::geteuid().is_root() { "Permission denied" } else { "Read-only file system" };
    let reaching = [
        ("import socket\ndef grade(task, answer): return socket.create_connection(('127.0.0.1', 1)) and 1", "Error"),
        ("def grade(task, answer): return open('/etc/shadow').read() and 1", "No such file"),
        ("def grade(task, answer): return open('grade.py', 'a') and 1", not_written),
        ("import os\ndef grade(task, answer): return float('HOME' in os.environ)", "0, expected 1"),
    ];
    // Without a sandbox nothing keeps them from it.
    let reaching = if there_are_no_sandboxes() { &[][..] } else { &reaching };
    for (code, why) in broken.iter().chain(reaching) {
        let message = host.refused("write_grader", grader(code, two()));
        assert!(message.contains(why), "{code}: {message}");
    }
    let same = json!([{ "task": 1, "answer": "a", "reward": 1 }, { "task": 1, "answer": "b", "reward": 1 }]);
    let message = host.refused("write_grader", grader("def grade(task, answer): return 1", same));
    assert!(
        message.ends_with("all examples earn the same: give one answer that must earn more than another"),
        "{message}"
    );
    host.refused("write_grader", grader("def grade(task, answer): return 1", json!([])));
    host.refused("write_grader", json!({ "name": "../g", "code": "", "examples": two() }));
    assert_eq!(fs::read_dir(directory.path().join("fulgurite/graders")).unwrap().count(), 0, "nothing is left of them");
    let good = grader("def grade(task, answer): return float(answer == 'a')", two());
    assert!(host.done("write_grader", good).contains("The grader \"g\" counts."));
    host.close();
}

#[test]
fn tools_that_are_started_without_bubblewrap_say_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = crate::common::fulgurite(["mcp", "--directory"]);
    command.arg(directory.path().join("tools")).env("PATH", directory.path()).stdin(std::process::Stdio::null());
    let message = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let missing = "warning: graders cannot run here: cannot find the program \"bwrap\"";
    assert!(message.starts_with(missing) && message.contains("apt install bubblewrap python3"), "{message}");
}

#[test]
fn what_a_run_is_graded_and_scored_by_is_fixed_once_it_has_begun() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &[]);
    host.done("write_grader", short());
    let mut leaky = run("leaky", "short");
    leaky["held_out"] = tasks(39..44);
    let message = host.refused("start_run", leaky);
    assert!(message.contains("1 of the rows of held_out.jsonl are among the tasks that are trained on"), "{message}");
    host.done("start_run", run("one", "short"));
    // A grader of that name that is written anew is for runs to come.
    let mut other = short();
    other["code"] = json!("def grade(task, answer): return 1.0 if not answer else 0.85");
    host.done("write_grader", other);
    host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    for file in ["grader/grade.py", "held_out.jsonl", "config.toml"] {
        let path = project.path("fulgurite/runs/one/setup").join(file);
        let kept = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{kept}\n")).unwrap();
        for (tool, arguments) in [
            ("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 })),
            ("finish", json!({ "run": "one" })),
            ("evaluate", json!({ "run": "one" })),
        ] {
            let message = host.refused(tool, arguments);
            assert!(message.contains("has been changed since run \"one\" began"), "{tool}: {message}");
        }
        fs::write(&path, kept).unwrap();
    }
    host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    host.close();
}
